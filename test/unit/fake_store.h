/*
 * fake_store.h
 *	  A store in memory with a clock of its own, for the tests of the client core: a small cluster whose nodes each
 *	  have their own opinion of who owns what, can die, hang, lose replies or say what a test has written for them.
 *
 * A key's slot is the number that it begins with ("12:a" lies in slot 12).  Commands run when they arrive at their node,
 * `latency_us` after they were flushed.  Nothing happens unless the test turns: fake_run() turns the client, and moves
 * the clock to the next event when there is nothing else to do.
 */
#ifndef ZARIS_FAKE_STORE_H
#define ZARIS_FAKE_STORE_H

#include "client/client.h"
#include "client/scan.h"

#define FAKE_NODES 8
#define FAKE_LOG   16384

typedef struct FakeKey
{
	char		   *key; /* NUL-terminated, without a NUL inside */
	char		   *value;
	ZarisRecordKind kind;
	int64_t			version;
	uint64_t		place; /* in the order of SCAN */
} FakeKey;

typedef struct FakeNode
{
	ZarisAddress address;
	char		 id[48];
	uint64_t	 epoch;
	bool		 primary;
	bool		 in_map; /* named by topologies */

	/* faults */
	bool		dead;			/* connections are refused */
	bool		hangs;			/* nothing is answered, until it is told to go on */
	bool		loses_replies;	/* commands run, then the connection breaks */
	bool		never_connects; /* what is sent stays in the process */
	ZarisStatus map_status;		/* of a fetch_map, when not Ok */
	const char *map_text;
	bool		map_hangs;

	/* its opinion */
	int		 owner[ZARIS_MAX_SLOTS];	 /* node or -1 */
	int		 migrating[ZARIS_MAX_SLOTS]; /* to, or -1 */
	int		 importing[ZARIS_MAX_SLOTS]; /* from, or -1 */
	uint64_t known_epoch;				 /* of the cluster */

	FakeKey *keys; /* by place */
	int		 n_keys;
	int		 size;
} FakeNode;

/* An answer written by the test: the next command of that node gets it, in order. */
typedef struct FakeScript
{
	int			node;
	ZarisAnswer answer;
	bool		applies; /* the command runs all the same */
} FakeScript;

/* What was sent. */
typedef struct FakeSend
{
	int				   node;
	ZarisOperationKind kind;
	char			   key[32];
	bool			   asking;
	uint64_t		   at_us;
} FakeSend;

struct ZarisStore
{
	uint64_t  now_us;
	uint64_t  random_state;
	uint64_t  latency_us;
	uint64_t  map_latency_us;
	int		  n_slots;
	int		  n_nodes;
	FakeNode *nodes;
	uint64_t  epoch;
	unsigned  capabilities;		/* for the driver of fake_open() */
	bool	  answers_in_flush; /* as an embedded store does */
	bool	  breaks_off_later; /* disconnect() answers nothing at once */
	int		  duplicates;		/* percent of the keys of a page that come once more */
	int		  slot_limit;		/* overrides a LIST_SLOTS' limit when > 0 */

	/* called before a command runs, to let things happen at that moment */
	void (*before)(ZarisStore *fake, int node, ZarisOperation *operation);
	void *before_context;

	FakeScript scripts[64];
	int		   n_scripts;
	int		   at_script;

	/* what happened */
	FakeSend	 log[FAKE_LOG];
	int			 n_log;
	ZarisAddress fetched[256];
	int			 n_fetched;
	int			 n_flushes;
	int			 n_disconnects;
	int			 n_detached;   /* calls of detach() */
	int			 n_broken;	   /* ... with broken */
	int			 n_runs;	   /* commands that ran, by any node */
	int			 callbacks_at; /* answers given */

	/* inside */
	ZarisClient			   *client;
	const ZarisStoreEvents *events;
	ZarisLoop			   *loop;
	ZarisTimer			   *timer;
	struct FakeFlight	   *flights;
	int						n_flights;
	int						flights_size;
	bool					map_asked;
	ZarisAddress			map_from;
	uint64_t				map_due_us;
};

/* A cluster of n nodes with the slots in equal parts; n_slots 1 = not partitioned. */
extern ZarisStore  *fake_create(int n_nodes, int n_slots);
extern void			fake_destroy(ZarisStore *fake);
extern ZarisClient *fake_open(ZarisStore *fake, int n_seeds); /* the first nodes are the seeds */
extern void			fake_close(ZarisStore *fake, ZarisClient *client);

/* keys */
extern void		fake_put(ZarisStore *fake, int node, const char *key, const char *value);
extern FakeKey *fake_find(ZarisStore *fake, int node, const char *key);
extern bool		fake_remove(ZarisStore *fake, int node, const char *key);
extern int		fake_slot(const char *key, size_t len);

/* moving a slot, step by step */
extern void fake_open_slot(ZarisStore *fake, int slot, int from, int to);
extern void fake_move_keys(ZarisStore *fake, int slot, int from, int to, int most);
extern void fake_hand_over(ZarisStore *fake, int slot, int from, int to); /* all nodes learn of it */
extern void fake_move_slot(ZarisStore *fake, int slot, int from, int to); /* the three at once */
extern void fake_fail_over(ZarisStore *fake, int dead, int to);			  /* all slots and keys of a node; it is dead afterwards */

/* scripts */
extern void fake_say(ZarisStore *fake, int node, ZarisStatus status, ZarisOutcome outcome, const char *text);
extern void fake_say_redirect(ZarisStore *fake, int node, ZarisRedirectKind kind, int slot, int to);

/* turning */
extern bool fake_run(ZarisStore *fake, bool (*is_done)(void *context), void *context); /* false: nothing goes on, or for ever */
extern bool fake_run_batch(ZarisStore *fake, ZarisBatch *batch);
extern void fake_advance(ZarisStore *fake, uint64_t us); /* let time pass, turning; at the end one turn */
extern void fake_turn(ZarisStore *fake);

/* short forms */
extern ZarisOperation *fake_get(ZarisBatch *batch, const char *key);
extern ZarisOperation *fake_put_op(ZarisBatch *batch, const char *key, const char *value, ZarisPrecondition precondition,
								   int64_t version);
extern int			   fake_sends(const ZarisStore *fake, int node, ZarisOperationKind kind); /* logged; node -1 = all */

#endif /* ZARIS_FAKE_STORE_H */
