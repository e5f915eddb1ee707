/* world.pml - what the runtime gives every actor: lives, streams, credit, and its tables.
 *
 * A stream delivers in order and once, from one life of its sender to one life of its receiver; so
 * it is a channel. An actor speaks to who it has met (JOINED), until it hears of the end (EXITED);
 * what it sends to a life that has ended is lost. What a dead sender left on its way may still
 * arrive, but not after its EXITED. Handlers are d_steps: they run to their end and wait for
 * nothing, so every channel must have room for what they say; put() asserts it.
 */
#define GATEWAY 0
#define PREFILL 1
#define DECODE 2
#define TRANSFER 3
#define RANK 4 /* rank 0 is the prefill group's, those from 1 on are the decode group's */
#define ACTORS (RANK + 1 + RANKS)

#define bit_of(n) (1 << (n))
#define rank_of(k) (RANK + (k))
#define leader_of(k) ((k) == 0 -> PREFILL : DECODE)

/* ---- attempts -------------------------------------------------------------------------------- */

#ifndef NA
#define NA 4
#endif
#define REQUESTS 2
#define request_of(a) ((a) / attempts) /* the older request has the smaller numbers */

/* Is there an attempt of which f is true? The first one is then found by first(f). */
#if NA == 1
#define SOME(f) (f(0))
#elif NA == 2
#define SOME(f) (f(0) || f(1))
#elif NA == 3
#define SOME(f) (f(0) || f(1) || f(2))
#elif NA == 4
#define SOME(f) (f(0) || f(1) || f(2) || f(3))
#elif NA == 5
#define SOME(f) (f(0) || f(1) || f(2) || f(3) || f(4))
#elif NA == 6
#define SOME(f) (f(0) || f(1) || f(2) || f(3) || f(4) || f(5))
#elif NA == 8
#define SOME(f) (f(0) || f(1) || f(2) || f(3) || f(4) || f(5) || f(6) || f(7))
#endif

#define first(f) \
  a = 0; \
  do \
  ::!(f(a)) -> a++ \
  ::else -> break \
  od

/* ---- scratch of the handler that runs; no part of the state ---------------------------------- */

hidden mtype:message m; /* the message in hand: its name, its attempt, its arguments */
hidden byte a;
hidden byte x;
hidden byte y;
hidden byte who;        /* its sender */
hidden byte s;          /* state of the attempt before */
hidden byte refused;
hidden byte trip;       /* an obstacle: what could be taken is not */
hidden byte moves;
hidden byte r;
hidden byte i;
hidden byte j;
hidden byte k;
hidden byte n;
hidden byte o;
hidden int allowed;     /* X_LEAVES(s, m) */
hidden byte left_in;    /* state of the attempt afterwards */
hidden byte seen_actor;
hidden byte seen_state;
hidden byte seen_id;

/* ---- settings --------------------------------------------------------------------------------
 *
 * From the environment, so that one verifier serves many configurations: what may go wrong and how
 * often, and sizes. Those that never change are hidden, and no part of the state.
 */
byte aborts;    /* clients leave */
byte deaths;    /* of those in `mortal` */
byte reforms;   /* a step stands still, or ranks differ, at a leader in `breaking` */
byte drains;    /* an operator takes away a group whose leader is in `leaving` */
byte obstacles; /* BUSY without need, no route, a full transfer, a bad copy, no pages */

hidden byte ranks;          /* of the decode group: 1 or 2 */
hidden byte requests;       /* 1 or 2, */
hidden byte attempts;       /* of so many attempts each; in all NA */
hidden byte mortal;         /* actors as bits */
hidden byte breaking;       /* leaders as bits */
hidden byte leaving;        /* leaders as bits */
hidden byte recalls;        /* a group that leaves may be called back before it is empty */
hidden byte calm;           /* a next life begins when all have heard of the end of the last one */
hidden byte chunks;         /* of a prompt; each is a piece of the hand-over */
hidden byte answer_max;     /* tokens; an answer may end before, */
hidden byte fixed;          /* or not */
hidden byte prefill_leases; /* attempts that prefill has pages for */
hidden byte decode_pages;   /* attempts that decode has pages for */
hidden byte credit;         /* REQUESTs that one stream may hold */
hidden byte mutant;         /* a known fault, put in */

c_decl {
  static int setting(const char *name, int otherwise)
  {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
  }
}

inline read_settings() {
  c_code {
    now.aborts = setting("ABORTS", 0);
    now.deaths = setting("DEATHS", 0);
    now.reforms = setting("REFORMS", 0);
    now.drains = setting("DRAINS", 0);
    now.obstacles = setting("OBSTACLES", 0);
    ranks = setting("RANKS", 1);
    requests = setting("REQUESTS", 1);
    attempts = NA / requests;
    mortal = setting("MORTAL", 255);
    breaking = setting("BREAKING", 255);
    leaving = setting("LEAVING", 255);
    recalls = setting("RECALLS", 0);
    calm = setting("CALM", 0);
    chunks = setting("CHUNKS", 2);
    answer_max = setting("ANSWER_MAX", 2);
    fixed = setting("FIXED", 0);
    prefill_leases = setting("PREFILL_LEASES", 2);
    decode_pages = setting("DECODE_PAGES", 1);
    credit = setting("CREDIT", 2);
    mutant = setting("MUTANT", 0);
  }
}

#define MUTANT_lost_fence 1
#define MUTANT_early_return 2
#define MUTANT_double_end 3
#define MUTANT_early_piece 4
#define MUTANT_no_quiesce 5
#define MUTANT_credit_leak 6
#define MUTANT_unpaid 7
#define MUTANT_stale_attempt 8
#define MUTANT_token_overtaken 9
#define MUTANT_starved_abort 10
#define MUTANT_copies_unfenced 11
#define MUTANT_retry_at_once 12
#define MUTANT_half_done 13
#define MUTANT_half_quiesced 14
#define MUTANT_half_landed 15
#define MUTANT_unfenced_refusal 16
#define is_mutant(name) (mutant == MUTANT_##name)

/* The answer of each request has so many tokens. */
byte answer[REQUESTS];

/* ---- why an attempt ends --------------------------------------------------------------------- */

#define STOPPED 0 /* the answer is whole: an end token, or as long as it may be */
#define ABORTED 1 /* nobody wants it */
#define LOST 2    /* it will be made again */

/* ---- what the tables of C say ---------------------------------------------------------------- */

c_decl { static unsigned char seen[8][16][256]; }

/* Tells run.py once of each rule that was taken. */
inline mark_rule(actor, before) {
  seen_actor = actor;
  seen_state = before;
  if
  :: c_expr { !seen[seen_actor][seen_state][m] } ->
    seen_id = MESSAGE_ID(m);
    c_code {
      seen[seen_actor][seen_state][m] = 1;
      printf("took %d %d %d\n", seen_actor, seen_state, seen_id);
    }
  :: else
  fi
}

/* The model has handled m in state s: C, whose word is in `allowed`, must decide the same way. (An
 * inline's argument has little room in Spin, so X_LEAVES is not one.) */
inline decided(actor) {
  printf("%d takes %d of %d (%d, %d): %d to %d\n", actor, m, a, x, y, s, left_in);
  assert(allowed != UNDECIDED);            /* C lets this kind of actor receive it */
  assert(refused == (allowed == REFUSED)); /* both refuse it, or neither does */
  assert(refused || ((allowed >> left_in) & 1)); /* and where it leaves is allowed */
  if
  :: !refused -> mark_rule(actor, s)
  :: else
  fi
}

/* ---- lives ----------------------------------------------------------------------------------- */

byte alive;
byte life[ACTORS];     /* counted for the transfer and ranks: messages name theirs */
byte met[ACTORS];      /* whose JOINED it has handled, and not yet EXITED */
byte exits[ACTORS];    /* whose EXITED waits for it */
byte met_life[ACTORS]; /* life of the transfer that it has met */

#define is_alive(i) ((alive >> (i)) & 1)
#define is_met(i, j) ((met[i] >> (j)) & 1)
#define is_due(i, j) ((exits[i] >> (j)) & 1)
#define is_wired(i, j) (is_met(i, j) && !is_due(i, j))
#define may_join(i, j) (is_alive(i) && is_alive(j) && !is_met(i, j) && !is_due(j, i))

inline meet(me, peer) {
  met[me] = met[me] | bit_of(peer)
}

inline part(me, peer) {
  met[me] = met[me] & ~bit_of(peer);
  exits[me] = exits[me] & ~bit_of(peer)
}

/* Who had met it will hear of its end. */
inline die(me) {
  printf("%d dies\n", me);
  alive = alive & ~bit_of(me);
  for (j : 0 .. ACTORS - 1) {
    if
    :: is_met(j, me) -> exits[j] = exits[j] | bit_of(me)
    :: else
    fi
  }
  met[me] = 0;
  exits[me] = 0
}

/* ---- streams --------------------------------------------------------------------------------- */

chan g2p = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan g2d = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan p2g = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan p2d = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan p2x = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan d2g = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan d2p = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan d2x = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan x2p = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan x2d = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan l2r[RANKS + 1] = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan r2l[RANKS + 1] = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan x2r[RANKS + 1] = [ROOM_MAX] of { mtype:message, byte, byte, byte };
chan r2x[RANKS + 1] = [ROOM_MAX] of { mtype:message, byte, byte, byte };

/* Says it, if the life is still there; a channel is never full. */
inline put(from, to, c, kind, about, one, two) {
  if
  :: is_wired(from, to) ->
    assert(nfull(c));
    c ! kind, about, one, two
  :: else
  fi
}

inline drain(c) {
  do
  :: len(c) > 0 -> c ? m, a, x, y
  :: else -> break
  od;
  skip
}

inline drain_unless_met(c, to, from) {
  if
  :: !is_met(to, from) -> drain(c)
  :: else
  fi
}

#define hears(me, peer, c) (is_met(me, peer) && nempty(c))

/* REQUESTs: so many may wait undispatched at the receiver. */
byte asked[6 + 3 * (RANKS + 1)];

#define TO_PREFILL 0 /* SUBMIT */
#define TO_DECODE 1  /* RESERVE */
#define P_TO_X 2     /* KV_READY */
#define D_TO_X 3     /* OPEN */
#define TO_RANK(k) (6 + (k))                      /* STEP, FENCE_COPIES */
#define TO_LEADER(k) (6 + RANKS + 1 + (k))        /* RANK_JOIN */
#define X_TO_RANK(k) (6 + 2 * (RANKS + 1) + (k))  /* PULL */

#define has_credit(stream) (asked[stream] < credit || is_mutant(unpaid))
#define may_ask(from, to, stream) (is_met(from, to) && has_credit(stream))

inline ask(from, to, stream, c, kind, about, one, two) {
  assert(asked[stream] < credit); /* nobody asks without credit */
  asked[stream]++;
  put(from, to, c, kind, about, one, two)
}

/* A REQUEST was dispatched. If its sender has died, its credit has too. */
inline acknowledge(stream) {
  if
  :: asked[stream] > 0 && !is_mutant(credit_leak) -> asked[stream]--
  :: else
  fi
}

/* STATE: one of a kind may be unacknowledged. */
byte said;

#define P_TOKENS 0
#define D_TOKENS 1
#define P_SOURCES 2
#define D_TARGETS 3
#define P_POOLS 4
#define D_PAIR 5
#define D_ROOM 6
#define may_say(from, to, what) (is_met(from, to) && !((said >> (what)) & 1))

inline say(from, to, what, c, kind, about, one, two) {
  said = said | bit_of(what);
  put(from, to, c, kind, about, one, two)
}

inline unsay(what) {
  said = said & ~bit_of(what)
}

/* ---- copies, by decode rank and attempt ------------------------------------------------------ */

#define PULL_FREE 0
#define PULL_QUEUED 1
#define PULL_RUNNING 2
byte pull[(RANKS + 1) * NA];
byte page_of[NA]; /* that it is copied to */
byte whole[RANKS + 1]; /* attempts of which all is at the rank: they may run */

#define pull_at(k, a) pull[(k) * NA + (a)]
#define is_pulled(a) (pull_at(1, a) != PULL_FREE || pull_at(2, a) != PULL_FREE)
#define is_copying(a) (pull_at(1, a) == PULL_RUNNING || pull_at(2, a) == PULL_RUNNING)

/* ---- what each opening is owed ----------------------------------------------------------------
 *
 * Masks of attempts. An opening sets a bit; the answer that it paid for takes it, and must find it.
 */
byte owes_end[3];   /* by actor: END, or RUNNING in its place */
byte owes_fence[3]; /* by actor: FENCED */
byte x_owes_d;      /* the transfer: FENCED to decode, for OPEN */
byte x_owes_p;      /* the transfer: FENCED to prefill, for the first KV_READY taken */

inline owe(mask, a) {
  assert(!((mask >> (a)) & 1));
  mask = mask | bit_of(a)
}

inline pay(mask, a) {
  assert((mask >> (a)) & 1);
  mask = mask & ~bit_of(a)
}

