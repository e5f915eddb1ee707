/* group.pml - actors/group.c: a leader's epochs, steps in flight, and view of its ranks.
 *
 * A step names attempts (a mask). A step is complete when all ranks have answered it; an attempt
 * counts in `last` how many steps must still be complete until none names it.
 */

typedef group_t {
  bool ready;
  bool drains; /* it takes no new work */
  byte epoch;   /* grows over all lives of the leader */
  unsigned flight : 3;  /* steps in flight, */
  unsigned running : 2; /* and how many of them run something */
  byte runs[STEPS_IN_FLIGHT_MAX]; /* attempts that each of them runs, oldest first */
};
group_t group[3]; /* by leader */

typedef view_t {
  unsigned joined : 3; /* its life; 0: not joined */
  bool must_quiesce;
  bool quiesced;
  unsigned done : 3; /* steps it has answered */
};
view_t view[RANKS + 1]; /* of each rank at its leader */

/* Steps on their way to, or at, any rank, that name an attempt: what a lease must outlive. */
byte naming[NA * 2]; /* by attempt, for prefill, then for decode */

#define first_rank(leader) (leader == PREFILL -> 0 : 1)
#define last_rank(leader) (leader == PREFILL -> 0 : ranks)
#define naming_of(k, a) naming[((k) == 0 -> 0 : NA) + (a)]

#define EPOCHS 16

inline name_all(k, mask, by) {
  for (n : 0 .. NA - 1) {
    if
    :: ((mask) >> n) & 1 -> naming_of(k, n) = naming_of(k, n) + by
    :: else
    fi
  };
  skip
}

/* Drops what is on its way to a rank; steps among it are named no more. */
inline drain_to_rank(k) {
  do
  :: len(l2r[k]) > 0 ->
    l2r[k] ? m, a, x, y;
    if
    :: m == STEP -> name_all(k, x, -1)
    :: else
    fi
  :: else -> break
  od;
  skip
}

inline push_reform(leader, k) {
  view[k].must_quiesce = true;
  view[k].quiesced = false;
  put(leader, rank_of(k), l2r[k], REFORM, 0, group[leader].epoch, 0)
}

/* x is the life that joins. */
inline group_join(leader, k) {
  put(leader, rank_of(k), l2r[k], RANK_JOINED, 0, 0, 0);
  view[k].joined = x;
  view[k].done = 0;
  push_reform(leader, k)
}

inline group_forget_steps(leader) {
  group[leader].flight = 0;
  group[leader].running = 0;
  for (n : 0 .. STEPS_IN_FLIGHT_MAX - 1) {
    group[leader].runs[n] = 0
  };
  skip
}

/* Steps in flight are forgotten; the leader loses its attempts afterwards. */
inline group_reform(leader) {
  group[leader].epoch++;
  assert(group[leader].epoch < EPOCHS);
  group[leader].ready = is_mutant(no_quiesce);
  group_forget_steps(leader);
  for (k : first_rank(leader) .. last_rank(leader)) {
    view[k].done = 0;
    if
    :: view[k].joined -> push_reform(leader, k)
    :: else
    fi
  };
  skip
}

inline forget_view(k) {
  view[k].joined = 0;
  view[k].must_quiesce = false;
  view[k].quiesced = false;
  view[k].done = 0
}

/* Sets moves: has it become ready? */
inline group_quiesced(leader, rank) {
  moves = false;
  if
  :: x == group[leader].epoch && !group[leader].ready ->
    view[rank].must_quiesce = false;
    view[rank].quiesced = true;
    moves = true;
    for (k : first_rank(leader) .. last_rank(leader)) {
      moves = moves && (view[k].quiesced || is_mutant(half_quiesced))
    }
    group[leader].ready = moves
  :: else
  fi
}

/* Has every rank left the older epochs? Can every rank be sent a step? May it run something? */
#define rank_settled(k) (!view[k].must_quiesce)
#define rank_may_step(leader, k) may_ask(leader, rank_of(k), TO_RANK(k))
#define is_settled(leader)                                                                        \
  (leader == PREFILL -> rank_settled(0) : (rank_settled(1) && rank_settled(2)))
#define may_step_to(leader)                                                                       \
  (leader == PREFILL -> rank_may_step(PREFILL, 0)                                                 \
                     : (rank_may_step(DECODE, 1) && (ranks == 1 || rank_may_step(DECODE, 2))))
#define all_lives (view[1].joined + 16 * view[2].joined)
#define may_step(leader)                                                                          \
  (group[leader].ready && group[leader].flight < STEPS_IN_FLIGHT_MAX && may_step_to(leader))
#define may_run(leader) (group[leader].running < STEPS_AHEAD_MAX)

/* A step that runs `runs` and, with them, closes others: `names`. */
inline group_send(leader, names, runs_mask) {
  group[leader].runs[group[leader].flight] = runs_mask;
  group[leader].flight++;
  group[leader].running = group[leader].running + (runs_mask != 0);
  for (k : first_rank(leader) .. last_rank(leader)) {
    if
    :: is_wired(leader, rank_of(k)) -> name_all(k, names, 1)
    :: else
    fi;
    ask(leader, rank_of(k), TO_RANK(k), l2r[k], STEP, 0, names, group[leader].epoch)
  };
  skip
}

/* Sets moves: is the oldest step complete? Then `o` are the attempts that it ran. */
inline group_step_done(leader, rank) {
  moves = false;
  if
  :: x == group[leader].epoch && group[leader].ready ->
    view[rank].done = view[rank].done + 1;
    moves = true;
    for (k : first_rank(leader) .. last_rank(leader)) {
      moves = moves && (view[k].done > 0 || (k > 1 && is_mutant(half_done)))
    }
  :: else
  fi;
  if
  :: moves ->
    for (k : first_rank(leader) .. last_rank(leader)) {
      view[k].done = view[k].done - (view[k].done > 0)
    }
    o = group[leader].runs[0];
    for (n : 1 .. STEPS_IN_FLIGHT_MAX - 1) {
      group[leader].runs[n - 1] = group[leader].runs[n]
    }
    group[leader].runs[STEPS_IN_FLIGHT_MAX - 1] = 0;
    group[leader].flight--;
    group[leader].running = group[leader].running - (o != 0)
  :: else
  fi
}

inline group_dies(leader) {
  group[leader].ready = false;
  group[leader].drains = false;
  group_forget_steps(leader);
  for (k : first_rank(leader) .. last_rank(leader)) {
    forget_view(k);
    asked[TO_RANK(k)] = 0;
    drain(r2l[k]);
    if
    :: !is_met(rank_of(k), leader) -> drain_to_rank(k)
    :: else
    fi
  };
  skip
}
