/* group.pml - actors/group.c: a leader's epochs, steps in flight, and view of its ranks.
 *
 * A step names attempts (a mask). A step is complete when all ranks have answered it; an attempt
 * counts in `last` how many steps must still be complete until none names it.
 */

typedef group_t {
  bool ready;
  byte epoch;   /* grows over all lives of the leader */
  byte flight;  /* steps in flight, two at most */
  byte runs[2]; /* attempts that each of them runs, oldest first */
};
group_t group[3]; /* by leader */

typedef view_t {
  unsigned joined : 3; /* its life; 0: not joined */
  bool must_quiesce;
  bool quiesced;
  unsigned done : 2; /* steps it has answered */
};
view_t view[RANKS + 1]; /* of each rank at its leader */

/* Steps on their way to, or at, any rank, that name an attempt: what a lease must outlive. */
byte naming[NA * 2]; /* by attempt, for prefill, then for decode */

#define first_rank(leader) (leader == PREFILL -> 0 : 1)
#define last_rank(leader) (leader == PREFILL -> 0 : RANKS)
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

/* Steps in flight are forgotten; the leader loses its attempts afterwards. */
inline group_reform(leader) {
  group[leader].epoch++;
  assert(group[leader].epoch < EPOCHS);
  group[leader].ready = is_mutant(no_quiesce);
  group[leader].flight = 0;
  group[leader].runs[0] = 0;
  group[leader].runs[1] = 0;
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
      moves = moves && view[k].quiesced
    }
    group[leader].ready = moves
  :: else
  fi
}

/* Has every rank left the older epochs? Can every rank be sent a step? */
#define rank_settled(k) (!view[k].must_quiesce)
#define rank_may_step(leader, k) may_ask(leader, rank_of(k), TO_RANK(k))
#if RANKS == 1
#define is_settled(leader) (leader == PREFILL -> rank_settled(0) : rank_settled(1))
#define may_step_to(leader)                                                                       \
  (leader == PREFILL -> rank_may_step(PREFILL, 0) : rank_may_step(DECODE, 1))
#define all_lives view[1].joined
#else
#define is_settled(leader)                                                                        \
  (leader == PREFILL -> rank_settled(0) : (rank_settled(1) && rank_settled(2)))
#define may_step_to(leader)                                                                       \
  (leader == PREFILL -> rank_may_step(PREFILL, 0)                                                 \
                     : (rank_may_step(DECODE, 1) && rank_may_step(DECODE, 2)))
#define all_lives (view[1].joined + 16 * view[2].joined)
#endif
#define may_step(leader) (group[leader].ready && group[leader].flight < 2 && may_step_to(leader))

/* A step that runs `runs` and, with them, closes others: `names`. */
inline group_send(leader, names, runs_mask) {
  group[leader].runs[group[leader].flight] = runs_mask;
  group[leader].flight++;
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
      moves = moves && view[k].done > 0
    }
  :: else
  fi;
  if
  :: moves ->
    for (k : first_rank(leader) .. last_rank(leader)) {
      view[k].done = view[k].done - 1
    }
    o = group[leader].runs[0];
    group[leader].runs[0] = group[leader].runs[1];
    group[leader].runs[1] = 0;
    group[leader].flight--
  :: else
  fi
}

inline group_dies(leader) {
  group[leader].ready = false;
  group[leader].flight = 0;
  group[leader].runs[0] = 0;
  group[leader].runs[1] = 0;
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
