/* rank.pml - actors/rank/rank.c and the device behind it: steps, copies, epochs. Rank 0 serves the
 * prefill leader and copies nothing. The device takes one copy at a time. */

typedef rank_t {
  unsigned state : 3;
  unsigned epoch : 4;
  bool owes_join;
  bool reforms;           /* the device is told to leave older epochs */
  unsigned steps : 3;     /* at the device, */
  unsigned of_epoch : 4;  /* and their epoch */
  byte names[STEPS_IN_FLIGHT_MAX]; /* attempts that each names */
  unsigned fenced : 3;    /* pulls of lives of the transfer up to this one are refused */
  unsigned fencing : 3;   /* COPIES_FENCED is owed for this one */
  unsigned pull_life : 3; /* of the transfer that ordered the pulls in the table */
};
rank_t rank_at[RANKS + 1];

/* What each pull will answer with. */
byte pull_cursor[(RANKS + 1) * NA];

#define cursor_at(k, a) pull_cursor[(k) * NA + (a)]

inline r_free(k, a) {
  pull_at(k, a) = PULL_FREE;
  cursor_at(k, a) = 0
}

/* The transfer's next life ordered nothing. */
inline r_push_pulled(k, a, bad) {
  if
  :: rank_at[k].pull_life == met_life[rank_of(k)] ->
    put(rank_of(k), TRANSFER, r2x[k], PULLED, a, cursor_at(k, a), bad)
  :: else
  fi
}

/* Gives the device what it has room for; what it writes must be the attempt's own page, unless the
 * leader has left this epoch, whose pages wait for this rank. */
inline r_start_copies(k) {
  n = 0;
  moves = 255;
  for (o : 0 .. NA - 1) {
    if
    :: pull_at(k, o) == PULL_RUNNING -> n++
    :: pull_at(k, o) == PULL_QUEUED && moves == 255 -> moves = o
    :: else
    fi
  }
  if
  :: n == 0 && moves != 255 ->
    pull_at(k, moves) = PULL_RUNNING;
    assert(!group[DECODE].ready || group[DECODE].epoch != rank_at[k].epoch ||
           d_owner[page_of[moves]] == 1 + moves)
  :: else
  fi
}

inline r_drop_queued(k) {
  for (o : 0 .. NA - 1) {
    if
    :: pull_at(k, o) == PULL_QUEUED ->
      r_push_pulled(k, o, true);
      r_free(k, o)
    :: else
    fi
  };
  skip
}

inline r_fence_copies(k) {
  moves = false;
  for (o : 0 .. NA - 1) {
    moves = moves || pull_at(k, o) != PULL_FREE
  }
  if
  :: rank_at[k].fencing && !(moves && rank_at[k].pull_life == rank_at[k].fencing) &&
     is_met(rank_of(k), DECODE) ->
    put(rank_of(k), DECODE, r2l[k], COPIES_FENCED, 0, rank_at[k].fencing, 0);
    rank_at[k].fencing = 0
  :: else
  fi
}

inline r_on_pull(k) {
  if
  :: met_life[rank_of(k)] <= rank_at[k].fenced || rank_at[k].state != RANK_STEPPING ||
     y != rank_at[k].epoch ->
    put(rank_of(k), TRANSFER, r2x[k], PULLED, a, x, true)
  :: else ->
    assert(pull_at(k, a) == PULL_FREE); /* a rank has one of an attempt at most */
    pull_at(k, a) = PULL_QUEUED;
    cursor_at(k, a) = x;
    rank_at[k].pull_life = met_life[rank_of(k)];
    r_start_copies(k)
  fi
}

inline r_on_pull_cancel(k) {
  if
  :: pull_at(k, a) == PULL_QUEUED ->
    r_push_pulled(k, a, true);
    r_free(k, a)
  :: else
  fi
}

inline r_on_fence_copies(k) {
  if
  :: rank_at[k].fenced < x -> rank_at[k].fenced = x
  :: else
  fi;
  rank_at[k].fencing = x;
  if
  :: rank_at[k].pull_life <= x -> r_drop_queued(k)
  :: else
  fi;
  r_fence_copies(k)
}

inline r_on_reform(k) {
  if
  :: x > rank_at[k].epoch ->
    rank_at[k].epoch = x;
    rank_at[k].state = RANK_LEAVING;
    r_drop_queued(k);
    rank_at[k].reforms = true
  :: else
  fi
}

inline r_on_step(k) {
  if
  :: y == rank_at[k].epoch ->
    assert(rank_at[k].steps < STEPS_IN_FLIGHT_MAX);
    rank_at[k].names[rank_at[k].steps] = x;
    rank_at[k].steps = rank_at[k].steps + 1;
    rank_at[k].of_epoch = y
  :: else -> name_all(k, x, -1) /* stale */
  fi
}

inline r_on_device_quiesced(k) {
  put(rank_of(k), leader_of(k), r2l[k], QUIESCED, 0, rank_at[k].epoch, 0);
  rank_at[k].state = RANK_STEPPING
}

inline rank_takes(k) {
  s = rank_at[k].state;
  refused = false;
  if
  :: m == RANK_JOINED && s == RANK_JOINING -> rank_at[k].state = RANK_WAITING
  :: m == REFORM && (s == RANK_WAITING || s == RANK_LEAVING || s == RANK_STEPPING) ->
    r_on_reform(k)
  :: m == DEVICE_QUIESCED && s == RANK_LEAVING -> r_on_device_quiesced(k)
  :: m == STEP && s == RANK_STEPPING -> r_on_step(k)
  :: m == FENCE_COPIES -> r_on_fence_copies(k)
  :: m == PULL -> r_on_pull(k)
  :: m == PULL_CANCEL -> r_on_pull_cancel(k)
  :: m == DEVICE_READY ->
    rank_at[k].owes_join = true;
    rank_at[k].state = RANK_JOINING
  :: m == DEVICE_COPIED ->
    if
    :: !y && t[a].last_known && t[a].units == cursor_at(k, a) && d_is_live(a) ->
      whole[k] = whole[k] | bit_of(a)
    :: else
    fi;
    r_push_pulled(k, a, y);
    r_free(k, a);
    r_start_copies(k);
    r_fence_copies(k)
  :: m == STEP_DONE ->
    if
    :: rank_at[k].of_epoch == rank_at[k].epoch && s == RANK_STEPPING ->
      put(rank_of(k), leader_of(k), r2l[k], STEP_DONE, 0, rank_at[k].epoch, 0)
    :: else
    fi
  :: m == JOINED && k > 0 -> r_fence_copies(k)
  :: m == JOINED && k == 0
  :: m == EXITED && x == leader_of(k) ->
    rank_at[k].fencing = 0;
    if
    :: s != RANK_LOADING ->
      rank_at[k].owes_join = true;
      rank_at[k].state = RANK_JOINING
    :: else
    fi
  :: m == EXITED && x == TRANSFER -> r_drop_queued(k)
  :: else ->
    refused = true;
    if
    :: m == STEP -> name_all(k, x, -1)
    :: else
    fi
  fi;
  allowed = RANK_LEAVES(s, m);
  left_in = rank_at[k].state;
  decided(RANK)
}

/* The device forgets its steps; they are named no more. */
inline r_drop_steps(k) {
  for (o : 0 .. STEPS_IN_FLIGHT_MAX - 1) {
    name_all(k, rank_at[k].names[o], -1);
    rank_at[k].names[o] = 0
  }
  rank_at[k].steps = 0;
  rank_at[k].of_epoch = 0
}

/* The device has finished a copy; its source may have gone meanwhile. */
inline r_copied(k, bad) {
  m = DEVICE_COPIED;
  a = 0;
  do
  :: pull_at(k, a) != PULL_RUNNING -> a++
  :: else -> break
  od;
  y = bad;
  rank_takes(k)
}

#define r_copies_1(a) (pull_at(1, a) == PULL_RUNNING)
#define r_copies_2(a) (pull_at(2, a) == PULL_RUNNING)
#define r_strays_1(a) (r_copies_1(a) && !p[a].holds)
#define r_strays_2(a) (r_copies_2(a) && !p[a].holds)
#define r_copies(k) ((k) == 1 && SOME(r_copies_1) || (k) == 2 && SOME(r_copies_2))
#define r_pulls_1(a) (pull_at(1, a) != PULL_FREE)
#define r_pulls_2(a) (pull_at(2, a) != PULL_FREE)
#define r_pulls(k) ((k) == 1 && SOME(r_pulls_1) || (k) == 2 && SOME(r_pulls_2))
#define r_strays(k) ((k) == 1 && SOME(r_strays_1) || (k) == 2 && SOME(r_strays_2))

proctype rank(byte me) {
end:
  do
  :: d_step {
      hears(rank_of(me), leader_of(me), l2r[me]) ->
      l2r[me] ? m, a, x, y;
      if
      :: m == STEP || m == FENCE_COPIES -> acknowledge(TO_RANK(me))
      :: else
      fi;
      rank_takes(me)
    }
  :: d_step {
      me > 0 && hears(rank_of(me), TRANSFER, x2r[me]) ->
      x2r[me] ? m, a, x, y;
      if
      :: m == PULL -> acknowledge(X_TO_RANK(me))
      :: else
      fi;
      rank_takes(me)
    }
  :: d_step {
      is_alive(rank_of(me)) && rank_at[me].state == RANK_LOADING ->
      m = DEVICE_READY;
      rank_takes(me)
    }
  :: d_step {
      rank_at[me].owes_join && may_ask(rank_of(me), leader_of(me), TO_LEADER(me)) ->
      rank_at[me].owes_join = false;
      ask(rank_of(me), leader_of(me), TO_LEADER(me), r2l[me], RANK_JOIN, 0, life[rank_of(me)], 0)
    }
  :: d_step { /* a step is done */
      rank_at[me].steps > 0 ->
      name_all(me, rank_at[me].names[0], -1);
      for (o : 1 .. STEPS_IN_FLIGHT_MAX - 1) {
        rank_at[me].names[o - 1] = rank_at[me].names[o]
      }
      rank_at[me].names[STEPS_IN_FLIGHT_MAX - 1] = 0;
      rank_at[me].steps = rank_at[me].steps - 1;
      m = STEP_DONE;
      rank_takes(me)
    }
  :: d_step { r_copies(me) -> r_copied(me, false) }
  :: d_step { r_strays(me) -> r_copied(me, true) }
  :: d_step {
      r_copies(me) && obstacles > 0 ->
      obstacles--;
      r_copied(me, true)
    }
  :: d_step { /* the device has left the older epochs */
      rank_at[me].reforms && !r_copies(me) ->
      rank_at[me].reforms = false;
      r_drop_steps(me);
      m = DEVICE_QUIESCED;
      rank_takes(me)
    }
  :: d_step {
      is_due(rank_of(me), leader_of(me)) ->
      part(rank_of(me), leader_of(me));
      drain_to_rank(me);
      asked[TO_LEADER(me)] = 0;
      m = EXITED;
      x = leader_of(me);
      rank_takes(me)
    }
  :: d_step {
      is_due(rank_of(me), TRANSFER) ->
      part(rank_of(me), TRANSFER);
      drain(x2r[me]);
      m = EXITED;
      x = TRANSFER;
      rank_takes(me)
    }
  :: d_step {
      may_join(rank_of(me), leader_of(me)) ->
      meet(rank_of(me), leader_of(me));
      m = JOINED;
      rank_takes(me)
    }
  :: d_step {
      me > 0 && may_join(rank_of(me), TRANSFER) ->
      meet(rank_of(me), TRANSFER);
      met_life[rank_of(me)] = life[TRANSFER];
      m = JOINED;
      rank_takes(me)
    }
  od
}

inline rank_dies(me) {
  die(rank_of(me));
  r_drop_steps(me);
  for (a : 0 .. NA - 1) {
    r_free(me, a)
  }
  whole[me] = 0;
  rank_at[me].state = RANK_LOADING;
  rank_at[me].epoch = 0;
  rank_at[me].owes_join = false;
  rank_at[me].reforms = false;
  rank_at[me].fenced = 0;
  rank_at[me].fencing = 0;
  rank_at[me].pull_life = 0;
  met_life[rank_of(me)] = 0;
  asked[TO_LEADER(me)] = 0;
  drain_to_rank(me);
  drain(x2r[me]);
  drain_unless_met(r2l[me], leader_of(me), rank_of(me));
  drain_unless_met(r2x[me], TRANSFER, rank_of(me))
}
