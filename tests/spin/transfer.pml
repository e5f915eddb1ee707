/* transfer.pml - actors/transfer/transfer.c, with the same names. A piece is one unit. */

typedef transfer_t {
  unsigned state : 2;
  bool source_known;
  bool last_known;
  bool landed_said;
  bool prefill_gone;
  bool decode_gone;
  bool cancel_sent;
  unsigned target_epoch : 4;
  unsigned source_epoch : 4;
  unsigned units : 2;
  byte cursor[RANKS + 1]; /* units ordered at each rank, */
  byte landed[RANKS + 1]; /* and those that are there */
};
transfer_t t[NA];

byte t_targets;            /* the decode group's epoch; 0: none now */
byte t_sources;            /* the prefill group's */
byte t_lives[RANKS + 1];   /* of the ranks in TARGETS */
byte t_met[RANKS + 1];     /* lives that were met */

#define t_is_there(a) (t[a].state != TRANSFER_NONE)
#define t_behind(a, k) (t[a].landed[k] < t[a].cursor[k])
#define t_is_moving(a) (t[a].state == TRANSFER_MOVING)
#define t_group_lives(a) (t_targets != 0 && t_targets == t[a].target_epoch)
#define t_sources_live(a) (t_sources != 0 && t_sources == t[a].source_epoch)
#define t_pulls(a) (t_behind(a, 1) || t_behind(a, 2))
#define t_all_landed(a)                                                                           \
  (t[a].landed[1] == t[a].units &&                                                                \
   (ranks == 1 || t[a].landed[2] == t[a].units || is_mutant(half_landed)))

inline t_forget(a) {
  t[a].state = TRANSFER_NONE;
  t[a].source_known = false;
  t[a].last_known = false;
  t[a].landed_said = false;
  t[a].prefill_gone = false;
  t[a].decode_gone = false;
  t[a].cancel_sent = false;
  t[a].target_epoch = 0;
  t[a].source_epoch = 0;
  t[a].units = 0;
  for (k : 1 .. ranks) {
    t[a].cursor[k] = 0;
    t[a].landed[k] = 0
  };
  skip
}

inline t_push_landed(a, failed) {
  if
  :: !t[a].landed_said && !t[a].decode_gone -> put(TRANSFER, DECODE, x2d, LANDED, a, failed, 0)
  :: else
  fi;
  t[a].landed_said = true
}

/* No byte moves: both openers hear it. */
inline t_fence(a) {
  assert(!t_pulls(a));
  if
  :: !t[a].decode_gone && !is_mutant(lost_fence) -> put(TRANSFER, DECODE, x2d, FENCED, a, 0, 0)
  :: else
  fi;
  pay(x_owes_d, a);
  if
  :: t[a].source_known ->
    if
    :: !t[a].prefill_gone -> put(TRANSFER, PREFILL, x2p, FENCED, a, 0, 0)
    :: else
    fi;
    pay(x_owes_p, a)
  :: else
  fi;
  t_forget(a)
}

inline t_stop_moving(a, failed) {
  if
  :: failed -> t_push_landed(a, true)
  :: else
  fi;
  t[a].landed_said = true;
  t[a].state = TRANSFER_DRAINING;
  if
  :: !t_pulls(a) -> t_fence(a)
  :: else ->
    for (k : 1 .. ranks) {
      if
      :: t_group_lives(a) && !t[a].cancel_sent && t_behind(a, k) ->
        put(TRANSFER, rank_of(k), x2r[k], PULL_CANCEL, a, 0, 0)
      :: else
      fi
    }
    t[a].cancel_sent = true
  fi
}

inline t_on_open() {
  if
  :: trip -> /* the transfer is full */
    put(TRANSFER, DECODE, x2d, LANDED, a, true, 0);
    put(TRANSFER, DECODE, x2d, FENCED, a, 0, 0)
  :: else ->
    owe(x_owes_d, a);
    t[a].state = TRANSFER_WAITING;
    t[a].target_epoch = x;
    put(TRANSFER, DECODE, x2d, OPENED, a, 0, 0)
  fi
}

inline t_on_kv_ready() {
  put(TRANSFER, PREFILL, x2p, KV_ANSWER, a, !trip, 0);
  if
  :: trip -> t_stop_moving(a, true)
  :: else ->
    if
    :: !t[a].source_known -> owe(x_owes_p, a)
    :: else -> assert(t[a].source_epoch == y)
    fi;
    assert(!t[a].last_known);
    t[a].source_known = true;
    t[a].source_epoch = y;
    t[a].units = t[a].units + 1;
    t[a].last_known = x;
    t[a].state = TRANSFER_MOVING
  fi
}

/* From rank k of the decode group. */
inline t_on_pulled(rank) {
  if
  :: t[a].cursor[rank] != x || !t_behind(a, rank) /* a copy that is not running */
  :: else ->
    t[a].landed[rank] = t[a].cursor[rank];
    if
    :: s == TRANSFER_DRAINING ->
      if
      :: !t_pulls(a) -> t_fence(a)
      :: else
      fi
    :: s != TRANSFER_DRAINING && y -> t_stop_moving(a, true)
    :: s != TRANSFER_DRAINING && !y && t[a].last_known && t_group_lives(a) && t_all_landed(a) ->
      t_push_landed(a, false);
      t_fence(a)
    :: else
    fi
  fi
}

inline transfer_takes() {
  s = t[a].state;
  refused = false;
  if
  :: m == OPEN && s == TRANSFER_NONE -> t_on_open()
  :: m == ABORT && s != TRANSFER_NONE -> t_stop_moving(a, who != DECODE)
  :: m == KV_READY && (s == TRANSFER_WAITING || s == TRANSFER_MOVING) -> t_on_kv_ready()
  :: m == KV_READY && (s == TRANSFER_NONE || s == TRANSFER_DRAINING) ->
    put(TRANSFER, PREFILL, x2p, KV_ANSWER, a, false, 0);
    t_assert_opened()
  :: m == PULLED && (s == TRANSFER_MOVING || s == TRANSFER_DRAINING) -> t_on_pulled(who - RANK)
  :: else ->
    refused = true;
    t_assert_opened()
  fi;
  allowed = TRANSFER_LEAVES(s, m);
  left_in = t[a].state;
  decided(TRANSFER)
}

/* Causal opening: what is unknown here has ended, and is not still to come. */
inline t_assert_opened() {
  assert(s != TRANSFER_NONE ||
         (!(d2x ?? [OPEN, eval(a), _, _]) && !(is_met(DECODE, TRANSFER) && d[a].open_due)))
}

inline t_on_targets() {
  t_targets = x;
  t_lives[1] = y % 16;
  t_lives[2] = y / 16;
  for (i : 0 .. NA - 1) {
    if
    :: t[i].state != TRANSFER_NONE && x > t[i].target_epoch ->
      for (k : 1 .. ranks) {
        t[i].landed[k] = t[i].cursor[k]
      }
      t_stop_moving(i, true)
    :: else
    fi
  };
  skip
}

inline t_on_sources() {
  t_sources = x;
  for (i : 0 .. NA - 1) {
    if
    :: t[i].state == TRANSFER_MOVING && x > t[i].source_epoch -> t_stop_moving(i, true)
    :: else
    fi
  };
  skip
}

/* An actor has exited; what of this attempt went with it? */
inline t_lose(a, failed) {
  if
  :: failed && t[a].state != TRANSFER_DRAINING -> t_stop_moving(a, true)
  :: t[a].state == TRANSFER_DRAINING && !t_pulls(a) -> t_fence(a)
  :: else
  fi
}

inline t_lose_rank(a, rank) {
  moves = false;
  if
  :: t_group_lives(a) && t_lives[rank] == t_met[rank] ->
    t[a].landed[rank] = t[a].cursor[rank]; /* the dead write nothing */
    moves = true
  :: t_group_lives(a) && t_lives[rank] > t_met[rank] ->
    t[a].cursor[rank] = t[a].landed[rank] /* it went to the dead one, and is ordered again */
  :: else
  fi;
  t_lose(a, moves)
}

inline t_lose_prefill(a) {
  t[a].prefill_gone = true;
  t_lose(a, true)
}

inline t_lose_decode(a) {
  t[a].decode_gone = true;
  t_lose(a, true)
}

#define t_lose_all(lose) \
  for (i : 0 .. NA - 1) { \
    if \
    ::t[i].state != TRANSFER_NONE -> lose(i) \
    ::else \
    fi \
  }; \
  skip

/* One PULL of an attempt at a rank; all units that are known. */
#define t_pulls_at_1(a) t_may_pull(a, 1)
#define t_pulls_at_2(a) t_may_pull(a, 2)
#define t_may_pull(a, k)                                                                          \
  (t_is_moving(a) && t_group_lives(a) && t_sources_live(a) && t[a].cursor[k] < t[a].units &&      \
   t[a].landed[k] == t[a].cursor[k])

inline t_plan_pull(k) {
  t[a].cursor[k] = t[a].units;
  ask(TRANSFER, rank_of(k), X_TO_RANK(k), x2r[k], PULL, a, t[a].units, t_targets)
}

#define TRANSFER_RANK_STEPS(rank)                                                                 \
  ::d_step {                                                                                      \
    may_ask(TRANSFER, rank_of(rank), X_TO_RANK(rank)) && SOME(t_pulls_at_##rank) ->               \
    first(t_pulls_at_##rank);                                                                     \
    t_plan_pull(rank)                                                                             \
  }                                                                                               \
  ::d_step {                                                                                      \
    is_due(TRANSFER, rank_of(rank)) ->                                                            \
    part(TRANSFER, rank_of(rank));                                                                \
    drain(r2x[rank]);                                                                             \
    asked[X_TO_RANK(rank)] = 0;                                                                   \
    t_lose_all_rank(rank)                                                                         \
  }                                                                                               \
  ::d_step {                                                                                      \
    may_join(TRANSFER, rank_of(rank)) -> meet(TRANSFER, rank_of(rank));                           \
    t_met[rank] = life[rank_of(rank)]                                                             \
  }

inline t_lose_all_rank(rank) {
  for (i : 0 .. NA - 1) {
    if
    :: t[i].state != TRANSFER_NONE -> t_lose_rank(i, rank)
    :: else
    fi
  };
  skip
}

inline transfer_hears() {
  if
  :: who == DECODE ->
    d2x ? m, a, x, y;
    if
    :: m == TARGETS -> unsay(D_TARGETS)
    :: m == OPEN -> acknowledge(D_TO_X)
    :: else
    fi
  :: who == PREFILL ->
    p2x ? m, a, x, y;
    if
    :: m == SOURCES -> unsay(P_SOURCES)
    :: else -> acknowledge(P_TO_X)
    fi
  :: else -> r2x[who - RANK] ? m, a, x, y
  fi;
  if
  :: trip -> obstacles--
  :: else
  fi
}

proctype transfer() {
end:
  do
  :: atomic {
      if
      :: hears(TRANSFER, DECODE, d2x) ->
        who = DECODE;
        trip = false
      :: hears(TRANSFER, DECODE, d2x) && obstacles > 0 && d2x ? [OPEN, _, _, _] ->
        who = DECODE;
        trip = true
      :: hears(TRANSFER, PREFILL, p2x) ->
        who = PREFILL;
        trip = false
      :: hears(TRANSFER, PREFILL, p2x) && obstacles > 0 && p2x ? [KV_READY, _, _, _] ->
        who = PREFILL;
        trip = true
      :: hears(TRANSFER, rank_of(1), r2x[1]) ->
        who = rank_of(1);
        trip = false
      :: hears(TRANSFER, rank_of(2), r2x[2]) ->
        who = rank_of(2);
        trip = false
      fi;
      d_step {
        true;
        transfer_hears();
        if
        :: m == TARGETS -> t_on_targets()
        :: m == SOURCES -> t_on_sources()
        :: else -> transfer_takes()
        fi
      }
    }
  TRANSFER_RANK_STEPS(1)
  TRANSFER_RANK_STEPS(2)
  :: d_step {
      is_due(TRANSFER, PREFILL) ->
      part(TRANSFER, PREFILL);
      drain(p2x);
      t_lose_all(t_lose_prefill);
      t_sources = 0
    }
  :: d_step {
      is_due(TRANSFER, DECODE) ->
      part(TRANSFER, DECODE);
      drain(d2x);
      t_lose_all(t_lose_decode);
      t_targets = 0
    }
  :: d_step { is_due(TRANSFER, GATEWAY) -> part(TRANSFER, GATEWAY) }
  :: d_step { may_join(TRANSFER, PREFILL) -> meet(TRANSFER, PREFILL) }
  :: d_step { may_join(TRANSFER, DECODE) -> meet(TRANSFER, DECODE) }
  od
}

inline transfer_dies() {
  die(TRANSFER);
  for (i : 0 .. NA - 1) {
    t_forget(i)
  }
  x_owes_d = 0;
  x_owes_p = 0;
  for (i : 1 .. ranks) {
    t_lives[i] = 0;
    t_met[i] = 0;
    asked[X_TO_RANK(i)] = 0;
    drain(r2x[i]);
    drain_unless_met(x2r[i], rank_of(i), TRANSFER)
  }
  t_targets = 0;
  t_sources = 0;
  drain(p2x);
  drain(d2x);
  drain_unless_met(x2p, PREFILL, TRANSFER);
  drain_unless_met(x2d, DECODE, TRANSFER)
}
