/* gateway.pml - actors/gateway/gateway.c: admission, replay, tokens for the client.
 *
 * The scheduler is in it: it answers a ROUTE as soon as all instances live, are known and take
 * work. (Where all is calmer, as soon as the attempt before has gone, too.)
 */

typedef gateway_t {
  unsigned state : 3;
  unsigned number : 3;    /* of the current attempt, from 0 */
  unsigned route : 4;     /* attempt + 1 for which ROUTED is on its way */
  unsigned received : 3;  /* tokens at the client */
  unsigned end_count : 3; /* ENDING: of the whole answer */
  bool prefill_gone;      /* it has exited, and decode goes on without it */
  bool ended;             /* the client was told */
};
gateway_t g[REQUESTS];

#define current(r) ((r) * attempts + g[r].number)

/* The client hears of the end: once, and of the right one. */
inline gateway_finish(r, reason) {
  assert(!g[r].ended);
  assert(reason != LOST);
  assert(reason != STOPPED || g[r].received == answer[r]);
  g[r].ended = true;
  g[r].end_count = 0;
  g[r].prefill_gone = false;
  g[r].state = GATEWAY_NONE
}

inline gateway_abort(r, reason) {
  if
  :: g[r].state == GATEWAY_PREFILL -> put(GATEWAY, PREFILL, g2p, ABORT, current(r), reason, 0)
  :: g[r].state == GATEWAY_DECODE ->
    if
    :: !g[r].prefill_gone -> put(GATEWAY, PREFILL, g2p, ABORT, current(r), reason, 0)
    :: else
    fi;
    put(GATEWAY, DECODE, g2d, ABORT, current(r), reason, 0)
  :: else
  fi
}

inline gateway_replay(r) {
  assert(g[r].number + 1 < attempts); /* the model has room for so many */
  g[r].number = g[r].number + 1;
  g[r].end_count = 0;
  g[r].prefill_gone = false;
  g[r].state = GATEWAY_QUEUED
}

inline gateway_on_end() {
  if
  :: g[r].state == GATEWAY_DECODE && who == PREFILL /* decode runs it */
  :: else ->
    if
    :: x == LOST ->
      if
      :: who == DECODE && s == GATEWAY_PREFILL -> gateway_abort(r, LOST)
      :: else
      fi;
      gateway_replay(r)
    :: x != LOST && g[r].received >= y ->
      assert(x != ABORTED); /* only its client may give it up */
      gateway_finish(r, x)
    :: else ->
      assert(x != ABORTED);
      g[r].end_count = y;
      g[r].state = GATEWAY_ENDING
    fi
  fi
}

inline gateway_on_tokens() {
  assert(x <= g[r].received); /* no token overtakes another */
  if
  :: who == DECODE && s == GATEWAY_PREFILL -> g[r].state = GATEWAY_DECODE
  :: else
  fi;
  if
  :: x + y > g[r].received -> g[r].received = x + y
  :: else
  fi;
  assert(g[r].received <= answer[r]);
  if
  :: s == GATEWAY_ENDING && g[r].received >= g[r].end_count -> gateway_finish(r, STOPPED)
  :: else
  fi
}

inline gateway_takes() {
  r = request_of(a);
  s = (current(r) == a || is_mutant(stale_attempt) -> g[r].state : GATEWAY_NONE);
  refused = false;
  if
  :: m == ROUTED && s == GATEWAY_ROUTING ->
    g[r].state = (x -> GATEWAY_ROUTED : GATEWAY_QUEUED)
  :: m == BUSY && s == GATEWAY_PREFILL -> g[r].state = GATEWAY_QUEUED
  :: m == END && (s == GATEWAY_PREFILL || s == GATEWAY_DECODE) -> gateway_on_end()
  :: m == TOKENS && (s == GATEWAY_PREFILL || s == GATEWAY_DECODE || s == GATEWAY_ENDING) ->
    gateway_on_tokens()
  :: m == TOKENS && s == GATEWAY_NONE ->
    if
    :: who == PREFILL -> put(GATEWAY, PREFILL, g2p, ABORT, a, ABORTED, 0)
    :: else -> put(GATEWAY, DECODE, g2d, ABORT, a, ABORTED, 0)
    fi
  :: m == FENCED /* it only counts them */
  :: else -> refused = true
  fi;
  allowed = GATEWAY_LEAVES(s, m);
  left_in = (current(r) == a -> g[r].state : GATEWAY_NONE);
  decided(GATEWAY)
}

#define depends_on_prefill(r)                                                                     \
  (g[r].state == GATEWAY_ROUTED || g[r].state == GATEWAY_PREFILL || g[r].state == GATEWAY_ENDING)
#define depends_on_decode(r) (depends_on_prefill(r) || g[r].state == GATEWAY_DECODE)
#define depends_on_transfer(r) (g[r].state == GATEWAY_ROUTED)

#define gateway_lose_all(depends) \
  for (r : 0 .. REQUESTS - 1) { \
    if \
    ::depends(r) -> \
      gateway_abort(r, LOST); \
      gateway_replay(r) \
    ::else \
    fi \
  }; \
  skip

inline gateway_plan(r) {
  if
  :: g[r].state == GATEWAY_QUEUED ->
    g[r].route = current(r) + 1;
    g[r].state = GATEWAY_ROUTING
  :: g[r].state == GATEWAY_ROUTED && !(is_met(GATEWAY, PREFILL) && is_met(GATEWAY, DECODE)) ->
    g[r].state = GATEWAY_QUEUED
  :: else ->
    ask(GATEWAY, PREFILL, TO_PREFILL, g2p, SUBMIT, current(r), g[r].received, 0);
    g[r].state = GATEWAY_PREFILL
  fi
}

#define wants_plan(r)                                                                             \
  (is_alive(GATEWAY) &&                                                                           \
   ((g[r].state == GATEWAY_QUEUED && !g[r].route) ||                                              \
    (g[r].state == GATEWAY_ROUTED &&                                                               \
     (!(is_met(GATEWAY, PREFILL) && is_met(GATEWAY, DECODE)) ||                                   \
      may_ask(GATEWAY, PREFILL, TO_PREFILL)))))
#define all_known                                                                                 \
  (is_wired(GATEWAY, PREFILL) && is_wired(GATEWAY, DECODE) && is_alive(TRANSFER) &&               \
   !group[PREFILL].drains && !group[DECODE].drains)

#define some_left (SOME(p_is_there) || SOME(d_is_there) || SOME(t_is_there))
#define may_route (all_known && (calm < 2 || !some_left))

/* Not an actor: the scheduler's answer to this request. */
#define ROUTE_OF(r) (16 + (r))
#define NO_ROUTE_OF(r) (18 + (r))

inline gateway_hears() {
  if
  :: who == PREFILL ->
    p2g ? m, a, x, y;
    if
    :: m == TOKENS -> unsay(P_TOKENS)
    :: else
    fi
  :: who == DECODE ->
    d2g ? m, a, x, y;
    if
    :: m == TOKENS -> unsay(D_TOKENS)
    :: else
    fi
  :: else ->
    r = who % 2;
    m = ROUTED;
    a = g[r].route - 1;
    x = who < NO_ROUTE_OF(0);
    g[r].route = 0;
    if
    :: !x -> obstacles--
    :: else
    fi
  fi
}

/* What one request's client and planner may do. */
#define REQUEST_STEPS(r)                                                                          \
  ::d_step { wants_plan(r) -> gateway_plan(r) }                                                   \
  ::d_step {                                                                                      \
    is_alive(GATEWAY) && aborts > 0 && g[r].state != GATEWAY_NONE ->                              \
    aborts--;                                                                                     \
    gateway_abort(r, ABORTED);                                                                    \
    gateway_finish(r, ABORTED)                                                                    \
  }

proctype gateway() {
end:
  do
  :: atomic {
      if
      :: hears(GATEWAY, PREFILL, p2g) -> who = PREFILL
      :: hears(GATEWAY, DECODE, d2g) -> who = DECODE
      :: g[0].route && may_route -> who = ROUTE_OF(0)
      :: g[1].route && may_route -> who = ROUTE_OF(1)
      :: g[0].route && obstacles > 0 -> who = NO_ROUTE_OF(0)
      :: g[1].route && obstacles > 0 -> who = NO_ROUTE_OF(1)
      fi;
      d_step {
        true;
        gateway_hears();
        gateway_takes()
      }
    }
  REQUEST_STEPS(0)
  REQUEST_STEPS(1)
  :: d_step {
      is_due(GATEWAY, PREFILL) ->
      part(GATEWAY, PREFILL);
      drain(p2g);
      asked[TO_PREFILL] = 0;
      gateway_lose_all(depends_on_prefill);
      for (r : 0 .. REQUESTS - 1) {
        g[r].prefill_gone = g[r].state == GATEWAY_DECODE
      }
      skip
    }
  :: d_step {
      is_due(GATEWAY, DECODE) ->
      part(GATEWAY, DECODE);
      drain(d2g);
      gateway_lose_all(depends_on_decode)
    }
  :: d_step {
      is_due(GATEWAY, TRANSFER) ->
      part(GATEWAY, TRANSFER);
      gateway_lose_all(depends_on_transfer)
    }
  :: d_step { may_join(GATEWAY, PREFILL) -> meet(GATEWAY, PREFILL) }
  :: d_step { may_join(GATEWAY, DECODE) -> meet(GATEWAY, DECODE) }
  :: d_step { may_join(GATEWAY, TRANSFER) -> meet(GATEWAY, TRANSFER) }
  od
}

/* Its connections go with it; the next life knows nothing of them. */
inline gateway_dies() {
  die(GATEWAY);
  for (r : 0 .. REQUESTS - 1) {
    g[r].state = GATEWAY_NONE;
    g[r].route = 0;
    g[r].end_count = 0;
    g[r].prefill_gone = false;
    g[r].ended = true
  }
  drain(p2g);
  drain(d2g);
  drain_unless_met(g2p, PREFILL, GATEWAY);
  drain_unless_met(g2d, DECODE, GATEWAY);
  asked[TO_PREFILL] = 0
}
