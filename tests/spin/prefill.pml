/* prefill.pml - actors/prefill: attempt.c, plan.c, prefill.c, with the same names.
 *
 * A prompt is `chunks` pages; a step runs one chunk, and the last chunk draws the first token.
 */

typedef prefill_t {
  unsigned state : 3;
  bool holds;
  bool slot_open;
  bool wait_settle;
  bool decode_open;
  bool decode_gone; /* not in C: nobody says when its ranks read no more */
  bool handed;
  bool gateway_gone;
  bool fenced;
  bool kv_stop;
  bool transfer_fenced;
  bool transfer_gone;
  bool token_known;
  bool token_due;
  bool token_sent;
  bool token_acked;
  unsigned forced : 3;   /* tokens that the gateway has */
  unsigned position : 2; /* chunks in steps sent */
  unsigned done : 2;     /* chunks complete on all ranks */
  unsigned last : 3;     /* steps to complete until none names it */
  unsigned pages : 2;    /* sent to the transfer */
  unsigned sent : 2;     /* pieces */
  unsigned answered : 2;
  unsigned taken : 2;
};
prefill_t p[NA];

byte p_held;         /* leases; prefill_leases in all */
byte p_pair;         /* 1 + own epoch in which decode can read its pages; 0: none */
bool p_blocked;      /* decode was BUSY */
byte p_pools_said;   /* epoch */
byte p_sources_said; /* epoch */

#define p_is_there(a) (p[a].state != PREFILL_NONE)
#define p_is_live(a) (p_is_there(a) && p[a].state != PREFILL_ENDING)
#define p_queued(a) (p[a].state == PREFILL_QUEUED)
#define p_runs(a) (p[a].state == PREFILL_PREFILLING)
#define p_closes(a) (p[a].state == PREFILL_ENDING && p[a].slot_open)
#define p_acks(a) (p[a].token_sent && !p[a].token_acked)
/* Decode's tokens come by another stream, and must not overtake the first one. */
#define p_whole(a)                                                                                \
  (p[a].token_known && (!p[a].token_due || p[a].token_acked || is_mutant(token_overtaken)))
#define p_pages(a) (p[a].done < chunks - 1 -> p[a].done : chunks - 1)
#define p_has_piece(a) (p_whole(a) || (!p[a].token_known && p_pages(a) > p[a].pages))
#define p_sends(a)                                                                                \
  (!p[a].kv_stop &&                                                                               \
   (((p[a].state == PREFILL_PREFILLING || p[a].state == PREFILL_HANDING) && p_has_piece(a)) ||    \
    (is_mutant(early_piece) && p[a].state == PREFILL_RESERVING && p[a].sent == 0)))
#define p_says(a)                                                                                 \
  (p[a].token_due && !p[a].token_sent && !p[a].token_acked && !p[a].gateway_gone)

/* ---- an attempt's end ------------------------------------------------------------------------ */

inline p_forget(a) {
  p[a].state = PREFILL_NONE;
  p[a].holds = false;
  p[a].slot_open = false;
  p[a].wait_settle = false;
  p[a].decode_open = false;
  p[a].decode_gone = false;
  p[a].handed = false;
  p[a].gateway_gone = false;
  p[a].fenced = false;
  p[a].kv_stop = false;
  p[a].transfer_fenced = false;
  p[a].transfer_gone = false;
  p[a].token_known = false;
  p[a].token_due = false;
  p[a].token_sent = false;
  p[a].token_acked = false;
  p[a].forced = 0;
  p[a].position = 0;
  p[a].done = 0;
  p[a].last = 0;
  p[a].pages = 0;
  p[a].sent = 0;
  p[a].answered = 0;
  p[a].taken = 0
}

/* Leases return: no step names it, and nobody reads its pages who could be made to stop. */
inline p_give_back(a) {
  if
  :: p[a].holds ->
    assert(naming[a] == 0);
    assert(!is_copying(a) || (p[a].transfer_gone && p[a].decode_gone));
    p[a].holds = false;
    p_held--
  :: else
  fi
}

inline p_settle(a) {
  if
  :: p[a].transfer_gone -> moves = p[a].decode_open
  :: else ->
    moves = !p[a].transfer_fenced && (p[a].taken > 0 || p[a].answered < p[a].sent)
  fi;
  moves = moves || p[a].decode_open || p[a].wait_settle || p[a].slot_open || p[a].last > 0;
  if
  :: !p[a].fenced && !moves ->
    p_give_back(a);
    put(PREFILL, GATEWAY, p2g, FENCED, a, 0, 0);
    pay(owes_fence[PREFILL], a);
    p[a].fenced = true
  :: else
  fi;
  if
  :: p[a].fenced && (p[a].gateway_gone || p[a].token_acked || !p[a].token_due) -> p_forget(a)
  :: else
  fi
}

inline p_settle_all() {
  for (i : 0 .. NA - 1) {
    if
    :: is_settled(PREFILL) -> p[i].wait_settle = false
    :: else
    fi;
    if
    :: p[i].state == PREFILL_ENDING -> p_settle(i)
    :: else
    fi
  };
  skip
}

inline p_end(a, reason, abort) {
  assert(p[a].state != PREFILL_NONE && p[a].state != PREFILL_ENDING);
  pay(owes_end[PREFILL], a);
  if
  :: !p[a].gateway_gone ->
    put(PREFILL, GATEWAY, p2g, END, a, reason, p[a].forced + (p[a].token_due -> 1 : 0))
  :: else
  fi;
  p[a].state = PREFILL_ENDING;
  p[a].kv_stop = true;
  if
  :: reason != STOPPED -> p[a].token_acked = true
  :: else
  fi;
  if
  :: abort && p[a].decode_open -> put(PREFILL, DECODE, p2d, ABORT, a, reason, 0)
  :: else
  fi;
  p_settle(a)
}

inline p_hand_over(a) {
  p[a].decode_open = false;
  p[a].handed = true;
  if
  :: p[a].state != PREFILL_ENDING ->
    pay(owes_end[PREFILL], a);
    p[a].state = PREFILL_ENDING;
    p[a].kv_stop = true
  :: else
  fi;
  if
  :: is_mutant(double_end) ->
    put(PREFILL, GATEWAY, p2g, END, a, STOPPED, 0);
    pay(owes_end[PREFILL], a)
  :: else
  fi;
  p_settle(a)
}

/* ---- the group ------------------------------------------------------------------------------- */

inline p_reform() {
  group_reform(PREFILL);
  p_held = 0;
  for (i : 0 .. NA - 1) {
    if
    :: p[i].state != PREFILL_NONE && p[i].state != PREFILL_QUEUED ->
      p[i].holds = false;
      p[i].slot_open = false;
      p[i].last = 0;
      p[i].wait_settle = true;
      if
      :: p[i].state != PREFILL_ENDING -> p_end(i, LOST, true)
      :: else
      fi
    :: else
    fi
  }
  p_settle_all()
}

/* What has not begun goes elsewhere at once; what runs may end here, until its time is over. */
inline p_drain(is_over) {
  for (i : 0 .. NA - 1) {
    if
    :: p_queued(i) || (p_is_live(i) && is_over) -> p_end(i, LOST, true)
    :: else
    fi
  };
  skip
}

inline p_finish_step() {
  for (i : 0 .. NA - 1) {
    if
    :: p[i].last > 0 -> p[i].last = p[i].last - 1
    :: else
    fi;
    if
    :: (o >> i) & 1 && p[i].holds ->
      p[i].done = p[i].done + 1;
      if
      :: p[i].done == chunks && p[i].state == PREFILL_HANDING ->
        p[i].token_known = true;
        if
        :: p[i].forced == 0 ->
          p[i].token_due = true;
          if
          :: answer[request_of(i)] == 1 -> p_end(i, STOPPED, true)
          :: else
          fi
        :: else
        fi
      :: else
      fi
    :: else
    fi
  }
  p_settle_all()
}

/* ---- messages of an attempt ------------------------------------------------------------------ */

/* Nothing was opened, and nothing will be. */
inline p_refuse(reason) {
  put(PREFILL, GATEWAY, p2g, END, a, reason, x);
  put(PREFILL, GATEWAY, p2g, FENCED, a, 0, 0)
}

inline p_on_submit() {
  if
  :: x >= answer_max -> p_refuse(STOPPED)
  :: x < answer_max && group[PREFILL].drains -> p_refuse(LOST)
  :: x < answer_max && !group[PREFILL].drains && trip -> put(PREFILL, GATEWAY, p2g, BUSY, a, 0, 0)
  :: else ->
    p[a].state = PREFILL_QUEUED;
    p[a].forced = x;
    owe(owes_end[PREFILL], a);
    owe(owes_fence[PREFILL], a)
  fi
}

#define p_waits_decode(s)                                                                         \
  ((s) == PREFILL_RESERVING || (s) == PREFILL_PREFILLING || (s) == PREFILL_HANDING)

inline prefill_takes() {
  s = p[a].state;
  refused = false;
  if
  :: m == SUBMIT && s == PREFILL_NONE -> p_on_submit()
  :: m == ABORT && (s == PREFILL_QUEUED || p_waits_decode(s)) -> p_end(a, x, true)
  :: m == ABORT && s == PREFILL_ENDING ->
    if
    :: p[a].handed -> put(PREFILL, DECODE, p2d, ABORT, a, x, 0)
    :: else
    fi
  :: m == RESERVED && s == PREFILL_RESERVING -> p[a].state = PREFILL_PREFILLING
  :: m == BUSY && (s == PREFILL_RESERVING || s == PREFILL_ENDING) ->
    p[a].decode_open = false;
    p_blocked = !is_mutant(retry_at_once);
    if
    :: s == PREFILL_ENDING -> p_settle(a)
    :: else ->
      p_give_back(a);
      p[a].state = PREFILL_QUEUED
    fi
  :: m == RUNNING && (s == PREFILL_HANDING || s == PREFILL_ENDING) -> p_hand_over(a)
  :: m == END && p_waits_decode(s) -> p_end(a, x, false)
  :: m == FENCED && (p_waits_decode(s) || s == PREFILL_ENDING) ->
    if
    :: who == DECODE -> p[a].decode_open = false
    :: else ->
      p[a].transfer_fenced = true;
      p[a].kv_stop = true
    fi;
    if
    :: s == PREFILL_ENDING -> p_settle(a)
    :: else
    fi
  :: m == KV_ANSWER &&
     (s == PREFILL_PREFILLING || s == PREFILL_HANDING || s == PREFILL_ENDING) ->
    assert(p[a].answered < p[a].sent);
    p[a].answered = p[a].answered + 1;
    if
    :: x -> p[a].taken = p[a].taken + 1
    :: else -> p[a].kv_stop = true
    fi;
    if
    :: s == PREFILL_ENDING -> p_settle(a)
    :: else
    fi
  :: else ->
    refused = true;
    /* Causal opening: what is unknown here has ended, and is not still to come. */
    assert(s != PREFILL_NONE || !(g2p ?? [SUBMIT, eval(a), _, _]))
  fi;
  allowed = PREFILL_LEAVES(s, m);
  left_in = p[a].state;
  decided(PREFILL)
}

/* ---- peers ----------------------------------------------------------------------------------- */

inline p_lose_gateway(a) {
  p[a].gateway_gone = true;
  if
  :: p[a].state == PREFILL_ENDING -> p_settle(a)
  :: else -> p_end(a, ABORTED, true)
  fi
}

inline p_lose_decode(a) {
  p[a].decode_open = false;
  p[a].decode_gone = true;
  if
  :: p[a].state == PREFILL_ENDING -> p_settle(a)
  :: else -> p_end(a, LOST, false)
  fi
}

inline p_lose_transfer(a) {
  p[a].transfer_gone = true;
  if
  :: p[a].state == PREFILL_ENDING -> p_settle(a)
  :: else -> p_end(a, LOST, true)
  fi
}

#define p_lose_all(lose) \
  for (i : 0 .. NA - 1) { \
    if \
    ::p[i].state != PREFILL_NONE -> lose(i) \
    ::else \
    fi \
  }; \
  skip

/* ---- planner --------------------------------------------------------------------------------- */

#define p_may_open                                                                                \
  (group[PREFILL].ready && p_pair == 1 + group[PREFILL].epoch && !p_blocked &&                    \
   p_held < prefill_leases && may_ask(PREFILL, DECODE, TO_DECODE))

/* The oldest first; older requests have smaller numbers. */
inline p_plan_opening() {
  first(p_queued);
  p[a].holds = true;
  p_held++;
  p[a].decode_open = true;
  p[a].state = PREFILL_RESERVING;
  ask(PREFILL, DECODE, TO_DECODE, p2d, RESERVE, a, p[a].forced, 0)
}

/* What ends is closed, and the oldest that runs gets the next chunk. */
inline p_plan_step() {
  x = 0;
  y = 0;
  for (i : 0 .. NA - 1) {
    if
    :: p_closes(i) ->
      x = x | bit_of(i);
      p[i].slot_open = false;
      p[i].last = group[PREFILL].flight + 1
    :: p_runs(i) && y == 0 && may_run(PREFILL) ->
      x = x | bit_of(i);
      y = bit_of(i);
      p[i].position = p[i].position + 1;
      p[i].last = group[PREFILL].flight + 1;
      p[i].slot_open = p[i].position < chunks;
      if
      :: p[i].position == chunks -> p[i].state = PREFILL_HANDING
      :: else
      fi
    :: else
    fi
  }
  group_send(PREFILL, x, y)
}

inline p_plan_piece() {
  first(p_sends);
  ask(PREFILL, TRANSFER, P_TO_X, p2x, KV_READY, a, p[a].token_known, group[PREFILL].epoch);
  p[a].sent = p[a].sent + 1;
  p[a].kv_stop = p[a].token_known;
  p[a].pages = (p[a].token_known -> chunks : p_pages(a))
}

/* May say means that the TOKENS before is acknowledged. */
inline p_plan_tokens() {
  for (i : 0 .. NA - 1) {
    if
    :: p_acks(i) ->
      p[i].token_acked = true;
      if
      :: p[i].state == PREFILL_ENDING -> p_settle(i)
      :: else
      fi
    :: else
    fi
  }
  if
  :: SOME(p_says) ->
    first(p_says);
    p[a].token_sent = true;
    say(PREFILL, GATEWAY, P_TOKENS, p2g, TOKENS, a, 0, 1)
  :: else
  fi
}

inline prefill_hears() {
  if
  :: who == GATEWAY ->
    g2p ? m, a, x, y;
    if
    :: m == SUBMIT -> acknowledge(TO_PREFILL)
    :: else
    fi;
    if
    :: trip -> obstacles--
    :: else
    fi
  :: who == DECODE ->
    d2p ? m, a, x, y;
    if
    :: m == PAIR -> unsay(D_PAIR)
    :: m == ROOM -> unsay(D_ROOM)
    :: else
    fi
  :: else -> x2p ? m, a, x, y
  fi
}

proctype prefill() {
end:
  do
  :: atomic {
      if
      :: hears(PREFILL, GATEWAY, g2p) ->
        who = GATEWAY;
        trip = false
      :: hears(PREFILL, GATEWAY, g2p) && obstacles > 0 && g2p ? [SUBMIT, _, _, _] ->
        who = GATEWAY;
        trip = true
      :: hears(PREFILL, DECODE, d2p) -> who = DECODE
      :: hears(PREFILL, TRANSFER, x2p) -> who = TRANSFER
      fi;
      d_step {
        true;
        prefill_hears();
        if
        :: m == PAIR -> p_pair = x
        :: m == ROOM -> p_blocked = false
        :: else -> prefill_takes()
        fi
      }
    }
  :: d_step {
      hears(PREFILL, rank_of(0), r2l[0]) ->
      r2l[0] ? m, a, x, y;
      if
      :: m == STEP_DONE ->
        group_step_done(PREFILL, 0);
        if
        :: moves -> p_finish_step()
        :: else
        fi
      :: m == QUIESCED ->
        group_quiesced(PREFILL, 0);
        p_settle_all()
      :: m == RANK_JOIN ->
        acknowledge(TO_LEADER(0));
        if
        :: group[PREFILL].ready -> p_reform()
        :: else
        fi;
        group_join(PREFILL, 0)
      fi
    }
  :: d_step { p_may_open && SOME(p_queued) -> p_plan_opening() }
  :: d_step {
      may_step(PREFILL) && (SOME(p_closes) || (may_run(PREFILL) && SOME(p_runs))) -> p_plan_step()
    }
  :: d_step { may_ask(PREFILL, TRANSFER, P_TO_X) && SOME(p_sends) -> p_plan_piece() }
  :: d_step {
      may_say(PREFILL, GATEWAY, P_TOKENS) && (SOME(p_acks) || SOME(p_says)) -> p_plan_tokens()
    }
  :: d_step {
      group[PREFILL].ready && p_sources_said != group[PREFILL].epoch &&
      may_say(PREFILL, TRANSFER, P_SOURCES) ->
      p_sources_said = group[PREFILL].epoch;
      say(PREFILL, TRANSFER, P_SOURCES, p2x, SOURCES, 0, group[PREFILL].epoch, 0)
    }
  :: d_step {
      group[PREFILL].ready && p_pools_said != group[PREFILL].epoch &&
      may_say(PREFILL, DECODE, P_POOLS) ->
      p_pools_said = group[PREFILL].epoch;
      say(PREFILL, DECODE, P_POOLS, p2d, POOLS, 0, group[PREFILL].epoch, 0)
    }
  :: d_step {
      is_due(PREFILL, GATEWAY) ->
      part(PREFILL, GATEWAY);
      drain(g2p);
      unsay(P_TOKENS);
      p_lose_all(p_lose_gateway);
      p_blocked = false
    }
  :: d_step {
      is_due(PREFILL, DECODE) ->
      part(PREFILL, DECODE);
      drain(d2p);
      asked[TO_DECODE] = 0;
      unsay(P_POOLS);
      p_lose_all(p_lose_decode);
      p_pair = 0;
      p_blocked = false;
      p_pools_said = 0
    }
  :: d_step {
      is_due(PREFILL, TRANSFER) ->
      part(PREFILL, TRANSFER);
      drain(x2p);
      asked[P_TO_X] = 0;
      unsay(P_SOURCES);
      p_lose_all(p_lose_transfer)
    }
  :: d_step {
      is_due(PREFILL, rank_of(0)) ->
      part(PREFILL, rank_of(0));
      drain(r2l[0]);
      asked[TO_RANK(0)] = 0;
      if
      :: view[0].joined ->
        forget_view(0);
        p_reform()
      :: else
      fi
    }
  :: d_step { may_join(PREFILL, GATEWAY) -> meet(PREFILL, GATEWAY) }
  :: d_step {
      may_join(PREFILL, DECODE) ->
      meet(PREFILL, DECODE);
      p_pools_said = 0
    }
  :: d_step {
      may_join(PREFILL, TRANSFER) ->
      meet(PREFILL, TRANSFER);
      p_sources_said = 0
    }
  :: d_step { may_join(PREFILL, rank_of(0)) -> meet(PREFILL, rank_of(0)) }
  od
}

inline prefill_dies() {
  die(PREFILL);
  for (i : 0 .. NA - 1) {
    p_forget(i)
  }
  owes_end[PREFILL] = 0;
  owes_fence[PREFILL] = 0;
  p_held = 0;
  p_pair = 0;
  p_blocked = false;
  p_pools_said = 0;
  p_sources_said = 0;
  unsay(P_TOKENS);
  unsay(P_SOURCES);
  unsay(P_POOLS);
  asked[TO_DECODE] = 0;
  asked[P_TO_X] = 0;
  group_dies(PREFILL);
  drain(g2p);
  drain(d2p);
  drain(x2p);
  drain_unless_met(p2g, GATEWAY, PREFILL);
  drain_unless_met(p2d, DECODE, PREFILL);
  drain_unless_met(p2x, TRANSFER, PREFILL)
}
