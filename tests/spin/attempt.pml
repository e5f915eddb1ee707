/* attempt.pml - the protocol of attempts: every order of messages, deaths, aborts and epochs.
 *
 * README.md says what is modelled and what is not; run.py gives the configurations. A run begins
 * with everything up and nothing asked. Faults are few and may be left out, so every run must end
 * by itself, and where it ends all must be well: `judge`.
 */
#define RANKS 2     /* of the decode group, at most */
#define ROOM_MAX 10 /* messages that a stream must hold: a few for each attempt */

#include "tables.pml"
#include "world.pml"
#include "group.pml"
#include "prefill.pml"
#include "decode.pml"
#include "transfer.pml"
#include "rank.pml"
#include "gateway.pml"

/* Calm: a fault comes only while it touches an attempt. Calmer: a rank has one in hand. */
#define touches(actor)                                                                            \
  (!calm || ((actor) == GATEWAY || (actor) == PREFILL || (actor) == RANK -> SOME(p_is_there)      \
                : ((actor) == TRANSFER -> SOME(t_is_there) : SOME(d_is_there))))
#define may_die(actor)                                                                            \
  (deaths > 0 && ((mortal >> (actor)) & 1) && is_alive(actor) && touches(actor))
#define rank_touches(k)                                                                           \
  (calm < 2 || rank_at[k].steps > 0 || nempty(l2r[k]) || nempty(x2r[k]) || r_pulls(k))
/* It takes a step; a rank that exits or joins is another fault. */
#define may_break(leader)                                                                         \
  (reforms > 0 && ((breaking >> (leader)) & 1) && group[leader].ready && group[leader].flight > 0)
#define all_exits (exits[0] | exits[1] | exits[2] | exits[3] | exits[4] | exits[5] | exits[6])
#define may_live(actor) (!is_alive(actor) && (!calm || !((all_exits >> (actor)) & 1)))

inline meet_both(one, other) {
  meet(one, other);
  meet(other, one)
}

/* A group leaves; it may come back when it has nothing any more. */
#define may_drain(leader)                                                                         \
  (drains > 0 && ((leaving >> (leader)) & 1) && is_alive(leader) && !group[leader].drains &&      \
   touches(leader))
#define may_return(leader, lives) (group[leader].drains && (recalls || !SOME(lives)))

/* Calm: all join at once. It is the only one that was dead. */
inline join_all(actor) {
  if
  :: !calm
  :: calm && actor == GATEWAY ->
    meet_both(GATEWAY, PREFILL);
    meet_both(GATEWAY, DECODE);
    meet(GATEWAY, TRANSFER);
    d_freed = true
  :: calm && actor == PREFILL ->
    meet_both(PREFILL, GATEWAY);
    meet_both(PREFILL, DECODE);
    meet_both(PREFILL, TRANSFER);
    meet_both(PREFILL, rank_of(0));
    d_pair_said = 255;
    d_freed = true
  :: calm && actor == DECODE ->
    meet_both(DECODE, GATEWAY);
    meet_both(DECODE, PREFILL);
    meet_both(DECODE, TRANSFER);
    met_life[DECODE] = life[TRANSFER];
    for (k : 1 .. ranks) {
      meet_both(DECODE, rank_of(k))
    }
    p_pools_said = 0;
    d_freed = true
  :: calm && actor == TRANSFER ->
    meet(GATEWAY, TRANSFER);
    meet_both(TRANSFER, PREFILL);
    meet_both(TRANSFER, DECODE);
    met_life[DECODE] = life[TRANSFER];
    for (k : 1 .. ranks) {
      meet_both(TRANSFER, rank_of(k));
      met_life[rank_of(k)] = life[TRANSFER];
      t_met[k] = life[rank_of(k)]
    }
    p_sources_said = 0;
    d_targets_said = 0;
    d_freed = true
  :: calm && actor == rank_of(0) -> meet_both(PREFILL, rank_of(0))
  :: else ->
    meet_both(DECODE, actor);
    meet_both(TRANSFER, actor);
    met_life[actor] = life[TRANSFER];
    t_met[actor - RANK] = life[actor];
    d_freed = true
  fi
}

inline spawn(actor) {
  alive = alive | bit_of(actor);
  life[actor]++;
  join_all(actor)
}

/* A leader's new life begins with a new epoch. */
inline spawn_leader(actor) {
  group[actor].epoch++;
  assert(group[actor].epoch < EPOCHS);
  spawn(actor)
}

#define RANK_FATE(k)                                                                              \
  ::d_step {                                                                                      \
    may_die(rank_of(k)) && rank_touches(k) -> deaths--;                                           \
    rank_dies(k)                                                                                  \
  }                                                                                               \
  ::d_step { (k) <= ranks && may_live(rank_of(k)) -> spawn(rank_of(k)) }

#define is_silent(c) assert(empty(c))

/* The end of a run: every request has ended at its client, or that has gone; every lease is back;
 * every opening was ended and fenced; nothing is under way. */
inline judge() {
  for (r : 0 .. REQUESTS - 1) {
    assert(g[r].ended && g[r].state == GATEWAY_NONE)
  }
  for (a : 0 .. NA - 1) {
    assert(p[a].state == PREFILL_NONE);
    assert(d[a].state == DECODE_NONE);
    assert(t[a].state == TRANSFER_NONE);
    assert(!is_pulled(a));
    assert(naming[a] == 0 && naming[NA + a] == 0)
  }
  assert(p_held == 0);
  for (i : 0 .. DECODE_PAGES_MAX - 1) {
    assert(d_owner[i] == 0)
  }
  assert(group[PREFILL].ready && group[DECODE].ready);
  assert(!group[PREFILL].drains && !group[DECODE].drains);
  assert(!owes_end[PREFILL] && !owes_end[DECODE]);
  assert(!owes_fence[PREFILL] && !owes_fence[DECODE] && !x_owes_d && !x_owes_p);
  is_silent(g2p);
  is_silent(g2d);
  is_silent(p2g);
  is_silent(p2d);
  is_silent(p2x);
  is_silent(d2g);
  is_silent(d2p);
  is_silent(d2x);
  is_silent(x2p);
  is_silent(x2d);
  for (k : 0 .. RANKS) {
    is_silent(l2r[k]);
    is_silent(r2l[k]);
    is_silent(x2r[k]);
    is_silent(r2x[k])
  }
}

/* Faults, and the supervisor, which starts the next life. When nothing else can move, it judges. */
proctype fate() {
end:
  do
  :: d_step {
      may_die(GATEWAY) ->
      deaths--;
      gateway_dies()
    }
  :: d_step {
      may_die(PREFILL) ->
      deaths--;
      prefill_dies()
    }
  :: d_step {
      may_die(DECODE) ->
      deaths--;
      decode_dies()
    }
  :: d_step {
      may_die(TRANSFER) ->
      deaths--;
      transfer_dies()
    }
  :: d_step {
      may_break(PREFILL) ->
      reforms--;
      p_reform()
    }
  :: d_step {
      may_break(DECODE) ->
      reforms--;
      d_reform()
    }
  :: d_step {
      may_drain(PREFILL) ->
      drains--;
      group[PREFILL].drains = true;
      p_drain(false)
    }
  :: d_step {
      may_drain(DECODE) ->
      drains--;
      group[DECODE].drains = true;
      d_drain(false)
    }
  :: d_step { group[PREFILL].drains && SOME(p_queued) -> p_drain(false) } /* a TICK */
  :: d_step { group[PREFILL].drains && SOME(p_is_live) -> p_drain(true) }
  :: d_step { group[DECODE].drains && SOME(d_is_live) -> d_drain(true) }
  :: d_step { may_return(PREFILL, p_is_there) -> group[PREFILL].drains = false }
  :: d_step {
      may_return(DECODE, d_is_there) ->
      group[DECODE].drains = false;
      d_freed = true
    }
  :: d_step { may_live(GATEWAY) -> spawn(GATEWAY) }
  :: d_step { may_live(PREFILL) -> spawn_leader(PREFILL) }
  :: d_step { may_live(DECODE) -> spawn_leader(DECODE) }
  :: d_step { may_live(TRANSFER) -> spawn(TRANSFER) }
  RANK_FATE(0)
  RANK_FATE(1)
  RANK_FATE(2)
  :: d_step { /* no fault any more */
      aborts + deaths + reforms + drains + obstacles > 0 ->
      aborts = 0;
      deaths = 0;
      reforms = 0;
      drains = 0;
      obstacles = 0
    }
  :: timeout -> break
  od;
  skip;
  d_step {
    true;
    judge();
    true
  }
}

/* All are up and know each other, groups are ready, pools are mapped. */
init {
  d_step {
    true;
    read_settings();
    alive = bit_of(rank_of(ranks) + 1) - 1;
    for (i : 0 .. rank_of(ranks)) {
      life[i] = 1
    }
    met[GATEWAY] = bit_of(PREFILL) | bit_of(DECODE) | bit_of(TRANSFER);
    met[PREFILL] = bit_of(GATEWAY) | bit_of(DECODE) | bit_of(TRANSFER) | bit_of(rank_of(0));
    met[DECODE] = bit_of(GATEWAY) | bit_of(PREFILL) | bit_of(TRANSFER);
    met[TRANSFER] = bit_of(PREFILL) | bit_of(DECODE);
    met[rank_of(0)] = bit_of(PREFILL);
    met_life[DECODE] = 1;
    group[PREFILL].epoch = 1;
    group[PREFILL].ready = true;
    group[DECODE].epoch = 1;
    group[DECODE].ready = true;
    for (k : 0 .. ranks) {
      view[k].joined = 1;
      view[k].quiesced = true;
      rank_at[k].state = RANK_STEPPING;
      rank_at[k].epoch = 1;
      if
      :: k > 0 ->
        met[DECODE] = met[DECODE] | bit_of(rank_of(k));
        met[TRANSFER] = met[TRANSFER] | bit_of(rank_of(k));
        met[rank_of(k)] = bit_of(DECODE) | bit_of(TRANSFER);
        met_life[rank_of(k)] = 1;
        t_lives[k] = 1;
        t_met[k] = 1
      :: else
      fi
    }
    p_pair = 2;
    p_pools_said = 1;
    p_sources_said = 1;
    d_source = 1;
    d_mapped = true;
    d_pair_said = 2;
    d_targets_said = 1;
    t_targets = 1;
    t_sources = 1;
    for (r : 0 .. REQUESTS - 1) {
      g[r].state = (r < requests -> GATEWAY_QUEUED : GATEWAY_NONE);
      g[r].ended = r >= requests
    }
  }
  atomic {
    for (r : 0 .. REQUESTS - 1) {
      answer[r] = answer_max
    }
    do
    :: answer[0] > 1 && !fixed -> answer[0]--
    :: break
    od;
    run gateway();
    run prefill();
    run decode();
    run transfer();
    run fate();
    run rank(0);
    run rank(1);
    if
    :: ranks > 1 -> run rank(2)
    :: else
    fi
  }
}
