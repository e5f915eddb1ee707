/* decode.pml - actors/decode: attempt.c, plan.c, decode.c, with the same names.
 *
 * An attempt takes one page; what is given to it (tokens of earlier attempts, or prefill's first)
 * runs in one step. Pages that run out in mid answer are an obstacle, which retracts the youngest.
 */

typedef decode_t {
  unsigned state : 3;
  bool open_due;
  bool transfer_open;
  bool handed;
  bool opener_gone;
  bool gateway_gone;
  bool holds;
  bool slot_open;
  bool wait_settle;
  bool fenced;
  unsigned copies : 3; /* by k */
  unsigned copies_life : 3;
  unsigned epoch : 4;
  unsigned last : 3;
  unsigned planned : 3;
  unsigned known : 3;
  unsigned sent : 3;
  unsigned acked : 3;
};
decode_t d[NA];

#define DECODE_PAGES_MAX 2
byte d_owner[DECODE_PAGES_MAX]; /* 1 + attempt; 0: free, or in quarantine while the group forms */
byte d_source;              /* the prefill group's epoch; 0: none now */
bool d_mapped;              /* and all ranks can read it */
byte d_pair_said = 255;     /* what PAIR said last; 255: nothing */
bool d_room_owed;
bool d_freed;               /* something came free since the BUSY */
byte d_targets_said;        /* epoch */
byte d_fence_life;          /* of the transfer that has exited */
byte d_fence_due;           /* ranks, by k, that are to be asked */

#define d_is_there(a) (d[a].state != DECODE_NONE)
#define d_is_live(a) (d_is_there(a) && d[a].state != DECODE_ENDING)
#define d_opens(a) (d[a].open_due)
#define d_closes(a) (d[a].state == DECODE_ENDING && d[a].slot_open)
#define d_runs(a) (d[a].state == DECODE_RUNNING && d[a].planned < answer_max)
#define d_acks(a) (d[a].sent > d[a].acked)
#define d_says(a) (d[a].state != DECODE_NONE && !d[a].gateway_gone && d[a].known > d[a].sent)
#define d_is_running(a) (d[a].state == DECODE_RUNNING)
#define d_pair (d_mapped -> 1 + d_source : 0)

/* ---- an attempt's end ------------------------------------------------------------------------ */

inline d_forget(a) {
  d[a].state = DECODE_NONE;
  d[a].open_due = false;
  d[a].transfer_open = false;
  d[a].handed = false;
  d[a].opener_gone = false;
  d[a].gateway_gone = false;
  d[a].holds = false;
  d[a].slot_open = false;
  d[a].wait_settle = false;
  d[a].fenced = false;
  d[a].copies = 0;
  d[a].copies_life = 0;
  d[a].epoch = 0;
  d[a].last = 0;
  d[a].planned = 0;
  d[a].known = 0;
  d[a].sent = 0;
  d[a].acked = 0;
  d_freed = true
}

/* To the opener: prefill until it was handed over, then the gateway. */
inline d_tell(a, kind, one, two) {
  if
  :: d[a].opener_gone
  :: !d[a].opener_gone && d[a].handed -> put(DECODE, GATEWAY, d2g, kind, a, one, two)
  :: else -> put(DECODE, PREFILL, d2p, kind, a, one, two)
  fi
}

/* Leases return: no step names it, and no rank copies for it, or will. */
inline d_give_back(a) {
  if
  :: d[a].holds ->
    assert(naming[NA + a] == 0);
    assert(!is_pulled(a));
    assert(d_owner[page_of[a]] == 1 + a);
    d_owner[page_of[a]] = 0;
    d[a].holds = false;
    d_freed = true
  :: else
  fi
}

inline d_settle(a) {
  moves = d[a].transfer_open || d[a].wait_settle || d[a].slot_open;
  moves = moves || (d[a].copies != 0 && !is_mutant(copies_unfenced));
  moves = moves || (d[a].last > 0 && !is_mutant(early_return));
  if
  :: !d[a].fenced && !moves ->
    d_give_back(a);
    d_tell(a, FENCED, 0, 0);
    pay(owes_fence[DECODE], a);
    d[a].fenced = true
  :: else
  fi;
  if
  :: d[a].fenced && (d[a].gateway_gone || d[a].acked >= d[a].known) -> d_forget(a)
  :: else
  fi
}

inline d_settle_all() {
  for (i : 0 .. NA - 1) {
    if
    :: is_settled(DECODE) && d[i].wait_settle ->
      d[i].wait_settle = false;
      d[i].copies = 0
    :: else
    fi;
    if
    :: d[i].state == DECODE_ENDING -> d_settle(i)
    :: else
    fi
  };
  skip
}

inline d_end(a, reason) {
  assert(d[a].state != DECODE_NONE && d[a].state != DECODE_ENDING);
  pay(owes_end[DECODE], a);
  d_tell(a, END, reason, d[a].known);
  d[a].state = DECODE_ENDING;
  d[a].open_due = false;
  for (k : 1 .. ranks) {
    whole[k] = whole[k] & ~bit_of(a)
  };
  if
  :: reason != STOPPED -> d[a].gateway_gone = true
  :: else
  fi;
  if
  :: d[a].transfer_open && !is_mutant(starved_abort) -> put(DECODE, TRANSFER, d2x, ABORT, a, reason, 0)
  :: else
  fi;
  d_settle(a)
}

/* ---- the group ------------------------------------------------------------------------------- */

inline d_reform() {
  group_reform(DECODE);
  d_mapped = false;
  for (i : 0 .. DECODE_PAGES_MAX - 1) {
    d_owner[i] = 0
  }
  for (i : 0 .. NA - 1) {
    if
    :: d[i].state != DECODE_NONE ->
      d[i].holds = false;
      d[i].slot_open = false;
      d[i].last = 0;
      d[i].wait_settle = true;
      if
      :: d[i].state != DECODE_ENDING -> d_end(i, LOST)
      :: else
      fi
    :: else
    fi
  }
  d_settle_all()
}

/* What runs here may end here, until its time is over. */
inline d_drain(is_over) {
  d_freed = true; /* who waits for room here asks, and hears that there is none */
  for (i : 0 .. NA - 1) {
    if
    :: d_is_live(i) && is_over -> d_end(i, LOST)
    :: else
    fi
  };
  skip
}

inline d_finish_step() {
  for (i : 0 .. NA - 1) {
    if
    :: d[i].last > 0 -> d[i].last = d[i].last - 1
    :: else
    fi;
    if
    :: (o >> i) & 1 && d[i].state == DECODE_RUNNING ->
      d[i].known = d[i].known + 1;
      if
      :: d[i].known == answer[request_of(i)] || d[i].known == answer_max -> d_end(i, STOPPED)
      :: else
      fi
    :: else
    fi
  }
  d_settle_all()
}

/* ---- messages of an attempt ------------------------------------------------------------------ */

/* A page that a rank may still write to must not be given out. */
inline d_lease(a) {
  n = 0;
  do
  :: d_owner[n] != 0 -> n++
  :: else -> break
  od;
  for (o : 0 .. NA - 1) {
    assert(!(is_pulled(o) && page_of[o] == n))
  }
  assert(naming[NA + a] == 0);
  d_owner[n] = 1 + a;
  page_of[a] = n;
  d[a].holds = true
}

#define d_has_page (d_owner[0] == 0 || (decode_pages > 1 && d_owner[1] == 0))
#define d_can_take (is_met(DECODE, GATEWAY) && group[DECODE].ready && d_mapped && d_has_page)

inline d_on_reserve() {
  if
  :: group[DECODE].drains -> /* nothing was opened, and nothing will be */
    put(DECODE, PREFILL, d2p, END, a, LOST, x);
    if
    :: is_mutant(unfenced_refusal)
    :: else -> put(DECODE, PREFILL, d2p, FENCED, a, 0, 0)
    fi
  :: !group[DECODE].drains && d_can_take ->
    d[a].state = DECODE_OPENING;
    d[a].open_due = true;
    d[a].epoch = group[DECODE].epoch;
    d[a].known = x;
    d[a].planned = x;
    d[a].sent = x;
    d[a].acked = x;
    owe(owes_end[DECODE], a);
    owe(owes_fence[DECODE], a);
    d_lease(a)
  :: else ->
    d_room_owed = true;
    d_freed = false;
    put(DECODE, PREFILL, d2p, BUSY, a, 0, 0)
  fi
}

/* All ranks that live hold all of it. */
inline d_start_running() {
  for (k : 1 .. ranks) {
    assert(((whole[k] >> a) & 1) || is_due(DECODE, rank_of(k)));
    whole[k] = whole[k] & ~bit_of(a)
  };
  if
  :: d[a].known == 0 ->
    d[a].known = 1;
    d[a].planned = 1;
    d[a].sent = 1;
    d[a].acked = 1
  :: else
  fi;
  d[a].state = DECODE_RUNNING;
  put(DECODE, PREFILL, d2p, RUNNING, a, 0, 0);
  d[a].handed = true;
  d[a].opener_gone = d[a].gateway_gone;
  if
  :: d[a].gateway_gone -> d_end(a, ABORTED)
  :: !d[a].gateway_gone && d[a].known >= answer_max -> d_end(a, STOPPED)
  :: else
  fi
}

#define d_lives(s) ((s) == DECODE_OPENING || (s) == DECODE_LANDING || (s) == DECODE_RUNNING)

inline decode_takes() {
  s = d[a].state;
  refused = false;
  if
  :: m == RESERVE && s == DECODE_NONE -> d_on_reserve()
  :: m == ABORT && d_lives(s) -> d_end(a, x)
  :: m == OPENED && s == DECODE_OPENING ->
    d[a].state = DECODE_LANDING;
    put(DECODE, PREFILL, d2p, RESERVED, a, 0, 0)
  :: m == LANDED && x && (s == DECODE_OPENING || s == DECODE_LANDING) -> d_end(a, LOST)
  :: m == LANDED && !x && s == DECODE_LANDING -> d_start_running()
  :: m == FENCED && s != DECODE_NONE ->
    d[a].transfer_open = false;
    if
    :: s == DECODE_ENDING -> d_settle(a)
    :: s == DECODE_OPENING || s == DECODE_LANDING -> d_end(a, LOST)
    :: else
    fi
  :: else ->
    refused = true;
    assert(s != DECODE_NONE || !(p2d ?? [RESERVE, eval(a), _, _]))
  fi;
  allowed = DECODE_LEAVES(s, m);
  left_in = d[a].state;
  decided(DECODE)
}

/* ---- peers ----------------------------------------------------------------------------------- */

inline d_lose_opener(a) {
  d[a].opener_gone = true;
  if
  :: d[a].state == DECODE_ENDING -> d_settle(a)
  :: else -> d_end(a, ABORTED)
  fi
}

inline d_lose_gateway(a) {
  d[a].gateway_gone = true;
  if
  :: d[a].handed -> d_lose_opener(a)
  :: else
  fi
}

inline d_lose_prefill(a) {
  if
  :: !d[a].handed -> d_lose_opener(a)
  :: else
  fi
}

inline d_joined_ranks() {
  n = 0;
  for (k : 1 .. ranks) {
    if
    :: view[k].joined -> n = n | bit_of(k)
    :: else
    fi
  };
  skip
}

/* Sets copies to n, who may still copy. */
inline d_lose_transfer(a) {
  if
  :: d[a].transfer_open && d[a].epoch == group[DECODE].epoch -> d[a].copies = n
  :: else
  fi;
  d[a].copies_life = met_life[DECODE];
  d[a].transfer_open = false;
  if
  :: d[a].state == DECODE_OPENING || d[a].state == DECODE_LANDING -> d_end(a, LOST)
  :: d[a].state == DECODE_ENDING -> d_settle(a)
  :: else
  fi
}

#define d_lose_all(lose) \
  for (i : 0 .. NA - 1) { \
    if \
    ::d[i].state != DECODE_NONE -> lose(i) \
    ::else \
    fi \
  }; \
  skip

inline d_on_copies_fenced(rank) {
  for (i : 0 .. NA - 1) {
    if
    :: d[i].copies_life <= x -> d[i].copies = d[i].copies & ~bit_of(rank)
    :: else
    fi
  }
  d_settle_all()
}

/* ---- planner --------------------------------------------------------------------------------- */

inline d_plan_open() {
  first(d_opens);
  d[a].open_due = false;
  d[a].transfer_open = true;
  ask(DECODE, TRANSFER, D_TO_X, d2x, OPEN, a, group[DECODE].epoch, 0)
}

/* What ends is closed; all that run get the next token, if one more step may run. */
inline d_plan_step() {
  x = 0;
  y = 0;
  for (i : 0 .. NA - 1) {
    if
    :: d_closes(i) ->
      x = x | bit_of(i);
      d[i].slot_open = false;
      d[i].last = group[DECODE].flight + 1
    :: d_runs(i) && may_run(DECODE) ->
      x = x | bit_of(i);
      y = y | bit_of(i);
      d[i].slot_open = true;
      d[i].planned = d[i].planned + 1;
      d[i].last = group[DECODE].flight + 1
    :: else
    fi
  }
  group_send(DECODE, x, y)
}

/* May say means that the TOKENS before is acknowledged. */
inline d_plan_tokens() {
  for (i : 0 .. NA - 1) {
    if
    :: d_acks(i) ->
      d[i].acked = d[i].sent;
      if
      :: d[i].state == DECODE_ENDING -> d_settle(i)
      :: else
      fi
    :: else
    fi
  }
  if
  :: SOME(d_says) ->
    first(d_says);
    x = d[a].sent;
    d[a].sent = d[a].known;
    say(DECODE, GATEWAY, D_TOKENS, d2g, TOKENS, a, x, d[a].known - x)
  :: else
  fi
}

/* The youngest loses. */
inline d_retract() {
  a = NA - 1;
  do
  :: !d_is_running(a) -> a--
  :: else -> break
  od;
  d_end(a, LOST)
}

/* What one rank of the group may say, be asked, and do by its end. */
#define DECODE_RANK_STEPS(rank)                                                                   \
  ::d_step {                                                                                      \
    hears(DECODE, rank_of(rank), r2l[rank]) ->                                                    \
    r2l[rank] ? m, a, x, y;                                                                       \
    decode_hears_rank(rank)                                                                       \
  }                                                                                               \
  ::d_step {                                                                                      \
    ((d_fence_due >> rank) & 1) && may_ask(DECODE, rank_of(rank), TO_RANK(rank)) ->               \
    d_fence_due = d_fence_due & ~bit_of(rank);                                                    \
    ask(DECODE, rank_of(rank), TO_RANK(rank), l2r[rank], FENCE_COPIES, 0, d_fence_life, 0)        \
  }                                                                                               \
  ::d_step {                                                                                      \
    is_due(DECODE, rank_of(rank)) ->                                                              \
    part(DECODE, rank_of(rank));                                                                  \
    drain(r2l[rank]);                                                                             \
    asked[TO_RANK(rank)] = 0;                                                                     \
    if                                                                                            \
    ::view[rank].joined ->                                                                        \
      forget_view(rank);                                                                          \
      d_reform()                                                                                  \
    ::else                                                                                        \
    fi                                                                                            \
  }                                                                                               \
  ::d_step {                                                                                      \
    may_join(DECODE, rank_of(rank)) -> meet(DECODE, rank_of(rank));                               \
    d_freed = true                                                                                \
  }

inline decode_hears_rank(rank) {
  if
  :: m == STEP_DONE ->
    group_step_done(DECODE, rank);
    if
    :: moves -> d_finish_step()
    :: else
    fi
  :: m == QUIESCED ->
    group_quiesced(DECODE, rank);
    if
    :: moves ->
      d_freed = true;
      /* Pages come out of quarantine: nothing of an older epoch may touch them. */
      for (i : 0 .. NA - 1) {
        assert(!is_pulled(i) && naming[NA + i] == 0)
      }
    :: else
    fi;
    d_settle_all()
  :: m == COPIES_FENCED -> d_on_copies_fenced(rank)
  :: m == RANK_JOIN ->
    acknowledge(TO_LEADER(rank));
    if
    :: group[DECODE].ready -> d_reform()
    :: else
    fi;
    group_join(DECODE, rank)
  fi
}

inline decode_hears() {
  if
  :: who == GATEWAY -> g2d ? m, a, x, y
  :: who == PREFILL ->
    p2d ? m, a, x, y;
    if
    :: m == POOLS -> unsay(P_POOLS)
    :: m == RESERVE -> acknowledge(TO_DECODE)
    :: else
    fi
  :: else -> x2d ? m, a, x, y
  fi
}

proctype decode() {
end:
  do
  :: atomic {
      if
      :: hears(DECODE, GATEWAY, g2d) -> who = GATEWAY
      :: hears(DECODE, PREFILL, p2d) -> who = PREFILL
      :: hears(DECODE, TRANSFER, x2d) -> who = TRANSFER
      fi;
      d_step {
        true;
        decode_hears();
        if
        :: m == POOLS ->
          d_source = x;
          d_mapped = false
        :: else -> decode_takes()
        fi
      }
    }
  DECODE_RANK_STEPS(1)
  DECODE_RANK_STEPS(2)
  :: d_step { may_ask(DECODE, TRANSFER, D_TO_X) && SOME(d_opens) -> d_plan_open() }
  :: d_step {
      may_step(DECODE) && (SOME(d_closes) || (may_run(DECODE) && SOME(d_runs))) -> d_plan_step()
    }
  :: d_step {
      may_say(DECODE, GATEWAY, D_TOKENS) && (SOME(d_acks) || SOME(d_says)) -> d_plan_tokens()
    }
  :: d_step { /* all ranks map the prefill group's pools, and test them */
      group[DECODE].ready && d_source > 0 && !d_mapped ->
      d_mapped = true;
      d_freed = true
    }
  :: d_step {
      d_pair_said != d_pair && may_say(DECODE, PREFILL, D_PAIR) ->
      d_pair_said = d_pair;
      say(DECODE, PREFILL, D_PAIR, d2p, PAIR, 0, d_pair_said, 0)
    }
  :: d_step {
      d_room_owed && d_freed && d_mapped && group[DECODE].ready &&
      may_say(DECODE, PREFILL, D_ROOM) ->
      d_room_owed = false;
      say(DECODE, PREFILL, D_ROOM, d2p, ROOM, 0, 0, 0)
    }
  :: d_step {
      group[DECODE].ready && d_targets_said != group[DECODE].epoch &&
      may_say(DECODE, TRANSFER, D_TARGETS) ->
      d_targets_said = group[DECODE].epoch;
      say(DECODE, TRANSFER, D_TARGETS, d2x, TARGETS, 0, group[DECODE].epoch, all_lives)
    }
  :: d_step {
      is_due(DECODE, GATEWAY) ->
      part(DECODE, GATEWAY);
      drain(g2d);
      unsay(D_TOKENS);
      d_lose_all(d_lose_gateway)
    }
  :: d_step {
      is_due(DECODE, PREFILL) ->
      part(DECODE, PREFILL);
      drain(p2d);
      unsay(D_PAIR);
      unsay(D_ROOM);
      d_lose_all(d_lose_prefill);
      d_mapped = false;
      d_source = 0;
      d_room_owed = false;
      d_pair_said = 255
    }
  :: d_step {
      is_due(DECODE, TRANSFER) ->
      part(DECODE, TRANSFER);
      drain(x2d);
      asked[D_TO_X] = 0;
      unsay(D_TARGETS);
      d_joined_ranks();
      d_fence_life = met_life[DECODE];
      d_fence_due = n;
      d_lose_all(d_lose_transfer)
    }
  :: d_step {
      obstacles > 0 && SOME(d_is_running) ->
      obstacles--;
      d_retract()
    }
  :: d_step {
      may_join(DECODE, GATEWAY) ->
      meet(DECODE, GATEWAY);
      d_freed = true
    }
  :: d_step {
      may_join(DECODE, PREFILL) ->
      meet(DECODE, PREFILL);
      d_pair_said = 255;
      d_freed = true
    }
  :: d_step {
      may_join(DECODE, TRANSFER) ->
      meet(DECODE, TRANSFER);
      met_life[DECODE] = life[TRANSFER];
      d_targets_said = 0;
      d_freed = true
    }
  od
}

inline decode_dies() {
  die(DECODE);
  for (i : 0 .. NA - 1) {
    d_forget(i)
  }
  for (i : 0 .. DECODE_PAGES_MAX - 1) {
    d_owner[i] = 0
  }
  for (k : 1 .. ranks) {
    whole[k] = 0
  }
  owes_end[DECODE] = 0;
  owes_fence[DECODE] = 0;
  d_source = 0;
  d_mapped = false;
  d_pair_said = 255;
  d_room_owed = false;
  d_freed = false;
  d_targets_said = 0;
  d_fence_life = 0;
  d_fence_due = 0;
  met_life[DECODE] = 0;
  unsay(D_TOKENS);
  unsay(D_TARGETS);
  unsay(D_PAIR);
  unsay(D_ROOM);
  asked[D_TO_X] = 0;
  group_dies(DECODE);
  drain(g2d);
  drain(p2d);
  drain(x2d);
  drain_unless_met(d2g, GATEWAY, DECODE);
  drain_unless_met(d2p, PREFILL, DECODE);
  drain_unless_met(d2x, TRANSFER, DECODE)
}
