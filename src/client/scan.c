/*
 * scan.c
 *	  Every record under a prefix exactly once, or an error (scan.h): the rounds, and what ends them.
 *
 * Nothing here waits: zaris_scan_next() goes as far as it goes, and says WAIT when the rest is with the store or
 * with the clock (which zaris_client_timeout_ms() knows of).
 */
#include "client/scan_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* failure */

/* Keep what messages need of an operation; its bytes may go with their batch. */
static void
keep_operation(ZarisScan *scan, const ZarisOperation *operation)
{
	scan->failed_operation = *operation;
	scan->failed_operation.scan = NULL;
	scan->failed_operation.page = NULL;
	scan->failed_operation.node_state = NULL;
	scan->failed_operation.batch = NULL;
	scan->failed_operation.next = NULL;
}

void
zaris_scan_fail(ZarisScan *scan, ZarisStatus status, const ZarisOperation *operation, const char *text)
{
	if (scan->state == SCAN_FAILED)
		return;
	scan->state = SCAN_FAILED;
	scan->link.wake_at_us = ZARIS_FAR_FUTURE;
	if (operation != NULL && operation != &scan->failed_operation)
		keep_operation(scan, operation);
	zaris_operation_set_text(scan->failure_text, text, strlen(text));
	scan->failure.status = status;
	scan->failure.operation = operation != NULL ? &scan->failed_operation : NULL;
	scan->failure.slots_left = scan->partitioned ? scan->n_slots - scan->done.n : 0;
	scan->failure.text = scan->failure_text;
}

void
zaris_scan_trouble(ZarisScan *scan, ZarisStatus status, const ZarisOperation *operation, const char *text)
{
	if (zaris_status_class(status) != ZARIS_CLASS_TRANSIENT || scan->client->policy.disabled)
	{
		zaris_scan_fail(scan, status, operation, text);
		return;
	}
	if (scan->trouble != ZARIS_OK)
		return;
	scan->trouble = status;
	scan->trouble_at_us = zaris_client_read_clock(scan->client);
	scan->trouble_has_operation = operation != NULL;
	if (operation != NULL)
		keep_operation(scan, operation);
	zaris_operation_set_text(scan->trouble_text, text, strlen(text));
}

void
zaris_scan_slot_is_done(ZarisScan *scan, int slot)
{
	zaris_slotset_add(&scan->done, slot);
	zaris_slotset_remove(&scan->after_failure, slot);
	zaris_slotset_remove(&scan->too_large, slot);
}

/* pauses */

static void
pause_until(ZarisScan *scan, uint64_t at_us)
{
	scan->state = SCAN_PAUSING;
	scan->not_before_us = at_us;
	scan->refresh_until_us = scan->client->now_us + scan->client->map_refresh_wait_us;
}

/* Over when the time has come and the refresh that was asked for has ended, or takes too long. */
static bool
pause_is_over(ZarisScan *scan)
{
	uint64_t now = zaris_client_read_clock(scan->client);
	bool	 refreshes = zaris_client_map_pending(scan->client) && now < scan->refresh_until_us;
	uint64_t wake_at = scan->not_before_us;

	if (now >= scan->deadline_us)
	{
		zaris_scan_fail(scan, ZARIS_DEADLINE_EXCEEDED, scan->trouble_has_operation ? &scan->failed_operation : NULL,
						scan->trouble_text);
		return false;
	}
	if (now >= scan->not_before_us && !refreshes)
	{
		scan->link.wake_at_us = ZARIS_FAR_FUTURE;
		return true;
	}
	if (refreshes && wake_at < scan->refresh_until_us)
		wake_at = scan->refresh_until_us;
	scan->link.wake_at_us = wake_at < scan->deadline_us ? wake_at : scan->deadline_us;
	return false;
}

/*
 * A round failed.  The rules are those of operations, with rounds without progress for attempts, so that a budget
 * that outlasts an election for operations does so for scans.
 */
static void
pause_after_trouble(ZarisScan *scan, bool progress)
{
	ZarisClient		  *client = scan->client;
	ZarisRetryInput	   input = {0};
	ZarisRetryDecision decision;
	bool			   has_map = client->map.generation > 0;

	scan->failures = progress ? 1 : scan->failures + 1;
	input.status = scan->trouble;
	input.outcome = ZARIS_OUTCOME_NOT_SENT;
	input.redirect = ZARIS_REDIRECT_NONE;
	input.kind = ZARIS_OP_SCAN_PAGE;
	input.attempts = scan->failures;
	input.now_us = zaris_client_read_clock(client);
	input.deadline_us = scan->deadline_us;
	input.jitter = zaris_client_jitter(client);
	decision = zaris_retry_decide(&client->policy, &input);
	scan->failed_operation.attempts = scan->failures;
	if (decision.action == ZARIS_RETRY_FINISH)
	{
		zaris_scan_fail(scan, decision.status, scan->trouble_has_operation ? &scan->failed_operation : NULL,
						scan->trouble_text);
		return;
	}

	/*
	 * The node is suspect already: the client saw its operation fail, and has mostly asked for a map since.  Without
	 * a map the next round asks for one.
	 */
	if (decision.refresh && has_map && client->refresh.last_success_us <= scan->trouble_at_us)
		zaris_refresh_want(client, &scan->asker, ZARIS_NO_NODE);
	pause_until(scan, decision.at_us);
}

/* Slots moved while they were walked: once more, soon. */
static void
pause_for_settling(ZarisScan *scan, bool progress)
{
	ZarisClient *client = scan->client;
	uint64_t	 pause = SCAN_SETTLE_PAUSE_US;
	uint64_t	 now = zaris_client_read_clock(client);
	int			 most = client->policy.max_attempts > SCAN_SETTLE_ROUNDS ? client->policy.max_attempts : SCAN_SETTLE_ROUNDS;

	scan->failures = 0;
	scan->unsettled = progress ? 1 : scan->unsettled + 1;
	if (scan->unsettled > most || client->policy.disabled)
	{
		snprintf(scan->trouble_text, sizeof(scan->trouble_text), "slots did not hold still for %d rounds of the scan",
				 scan->unsettled);
		zaris_scan_fail(scan, ZARIS_OWNERSHIP_CHANGING, NULL, scan->trouble_text);
		return;
	}
	for (int i = 1; i < scan->unsettled && pause < SCAN_SETTLE_PAUSE_MOST_US; i++)
		pause *= 2;
	if (pause > SCAN_SETTLE_PAUSE_MOST_US)
		pause = SCAN_SETTLE_PAUSE_MOST_US;

	/* Not in step with whoever moves the slots. */
	pause = (uint64_t) ((double) pause * (1.0 + 0.5 * zaris_client_jitter(client)));
	scan->trouble_text[0] = '\0';
	scan->trouble_has_operation = false;
	zaris_refresh_want(client, &scan->asker, ZARIS_NO_NODE);
	pause_until(scan, now + pause);
}

/* rounds */

static void
free_walks(ZarisScan *scan, bool broken)
{
	while (!zaris_link_is_alone(&scan->walks))
		zaris_walk_free(ZARIS_OF_LINK(ScanWalk, link, scan->walks.next), broken);
}

static void
end_round(ZarisScan *scan)
{
	bool progress = scan->done.n > scan->done_before;

	free_walks(scan, false);
	if (scan->n_slots > 0 && scan->done.n == scan->n_slots)
	{
		scan->state = SCAN_END;
		return;
	}

	/* Where there are no slots to be done, only new keys show that it goes forward. */
	if (!scan->partitioned)
		progress = scan->new_keys > scan->keys_before;
	if (scan->trouble != ZARIS_OK)
		pause_after_trouble(scan, progress);
	else
		pause_for_settling(scan, progress);
}

/* Without a map: wait for one, once a round; then it is trouble. True when there is one. */
static bool
has_map(ZarisScan *scan)
{
	ZarisClient *client = scan->client;
	ZarisStatus	 status;
	const char	*words;

	if (client->map.generation > 0)
		return true;
	if (!scan->map_was_awaited)
	{
		scan->map_was_awaited = true;
		zaris_refresh_want(client, NULL, ZARIS_NO_NODE);
		pause_until(scan, client->now_us);
		return false;
	}
	scan->map_was_awaited = false;
	words = zaris_client_map_error(client, &status);
	if (zaris_client_map_pending(client) || status == ZARIS_OK)
	{
		status = ZARIS_UNAVAILABLE;
		words = "the cluster map did not come in time";
	}
	zaris_scan_trouble(scan, status, NULL, words);
	if (scan->state != SCAN_FAILED)
		end_round(scan);
	return false;
}

/* What kind of store this is, as the first map tells. */
static bool
learn_store(ZarisScan *scan)
{
	ZarisClient *client = scan->client;
	unsigned	 capabilities = zaris_client_capabilities(client);

	if (scan->n_slots != 0 && scan->n_slots != client->map.now.n_slots)
	{
		zaris_scan_fail(scan, ZARIS_UNAVAILABLE, NULL, "the store was replaced by one of another kind");
		return false;
	}
	scan->n_slots = client->map.now.n_slots;
	scan->partitioned = scan->n_slots > 1;
	scan->ordered = !scan->partitioned && (capabilities & ZARIS_CAN_ORDER) != 0;
	scan->has_records = (capabilities & ZARIS_CAN_RECORDS) != 0;
	return true;
}

/* The walks of a round by node and method; made when the first slot needs one. */
typedef struct Round
{
	ScanWalk *by_pages[ZARIS_MAX_NODES];
	ScanWalk *by_lists[ZARIS_MAX_NODES];
	int		  failed_slots[ZARIS_MAX_NODES];
} Round;

/*
 * At first everything is paged.  Later only what is too large to be listed, and what has to be done from the
 * beginning because a node failed; slots that moved are listed.
 */
static ScanMethod
choose_method(const ZarisScan *scan, const Round *round, int node, int slot)
{
	if (!scan->partitioned || scan->rounds == 1 || zaris_slotset_has(&scan->too_large, slot))
		return SCAN_BY_PAGES;
	if (zaris_slotset_has(&scan->after_failure, slot) && round->failed_slots[node] > SCAN_RESCAN_SLOTS)
		return SCAN_BY_PAGES;
	return SCAN_BY_LISTS;
}

static void
assign_slot(ZarisScan *scan, Round *round, int slot)
{
	int		   node = zaris_map_owner(&scan->client->map, slot);
	ScanMethod method;
	ScanWalk **walk;
	char	   text[ZARIS_ERROR_TEXT];

	if (node < 0)
	{
		snprintf(text, sizeof(text), "no node owns slot %d", slot);
		zaris_scan_trouble(scan, ZARIS_UNAVAILABLE, NULL, text);
		return;
	}
	method = choose_method(scan, round, node, slot);
	walk = method == SCAN_BY_PAGES ? &round->by_pages[node] : &round->by_lists[node];
	if (*walk == NULL)
		*walk = zaris_walk_begin(scan, node, method);
	if (*walk != NULL)
		zaris_slotset_add(&(*walk)->slots, slot);
}

static void
begin_round(ZarisScan *scan)
{
	Round round = {0};

	if (!has_map(scan) || !learn_store(scan))
		return;
	scan->state = SCAN_WALKING;
	scan->rounds++;
	scan->map_was_awaited = false;
	scan->trouble = ZARIS_OK;
	scan->trouble_text[0] = '\0';
	scan->trouble_has_operation = false;
	scan->done_before = scan->done.n;
	scan->keys_before = scan->new_keys;
	scan->asker.forced_refresh = false;
	scan->asker.map_generation = scan->client->map.generation;
	if (scan->rounds > 1 && scan->partitioned)
		scan->stats.slots_again += (uint64_t) (scan->n_slots - scan->done.n);

	for (int slot = 0; slot < scan->n_slots; slot++)
	{
		int node = zaris_map_owner(&scan->client->map, slot);

		if (node >= 0 && zaris_slotset_has(&scan->after_failure, slot))
			round.failed_slots[node]++;
	}
	for (int slot = 0; slot < scan->n_slots && scan->state != SCAN_FAILED; slot++)
	{
		if (!zaris_slotset_has(&scan->done, slot))
			assign_slot(scan, &round, slot);
	}
}

/* going on */

/* All walks as far as they go; walks may make others. */
static void
advance_walks(ZarisScan *scan)
{
	ZarisLink *link;
	ZarisLink *following;

	do
	{
		scan->walks_were_added = false;
		ZARIS_EACH_LINK(link, following, &scan->walks)
		{
			zaris_walk_advance(ZARIS_OF_LINK(ScanWalk, link, link));
			if (scan->state == SCAN_FAILED)
				return;
		}
	} while (scan->walks_were_added);
}

/* The oldest page of a walk whose rows are ready, or NULL; *all_over tells whether any can still come. */
static ScanPage *
find_ready(ZarisScan *scan, bool *all_over)
{
	*all_over = true;
	for (ZarisLink *link = scan->walks.next; link != &scan->walks; link = link->next)
	{
		ScanWalk *walk = ZARIS_OF_LINK(ScanWalk, link, link);

		if (walk->pages != NULL && walk->pages->state == SCAN_PAGE_READY)
		{
			/* The next time another node's turn comes first, so that all of them are kept busy. */
			zaris_link_remove(&walk->link);
			zaris_link_add(&scan->walks, &walk->link);
			return walk->pages;
		}
		if (!zaris_walk_is_over(walk))
			*all_over = false;
	}
	return NULL;
}

/* One step; true when *step is the answer, false when there is another step to take. */
static bool
take_step(ZarisScan *scan, ZarisRecord *record, ZarisScanStep *step)
{
	bool all_over;

	*step = ZARIS_SCAN_WAIT;
	switch (scan->state)
	{
		case SCAN_END:
			*step = ZARIS_SCAN_END;
			return true;
		case SCAN_FAILED:
			*step = ZARIS_SCAN_FAILED;
			return true;
		case SCAN_NEXT_ROUND:
			begin_round(scan);
			return false;
		case SCAN_PAUSING:
			if (pause_is_over(scan))
				scan->state = SCAN_NEXT_ROUND;
			return scan->state == SCAN_PAUSING;
		case SCAN_WALKING:
			break;
	}

	if (scan->giving == NULL)
	{
		advance_walks(scan);
		if (scan->state == SCAN_FAILED)
			return false;
		scan->giving = find_ready(scan, &all_over);
		if (scan->giving == NULL && !all_over)
			return true;
		if (scan->giving == NULL)
			end_round(scan);
		return false;
	}
	if (zaris_page_next_row(scan->giving, scan, record))
	{
		*step = ZARIS_SCAN_ROW;
		return true;
	}
	scan->giving = NULL;
	return false;
}

ZarisScanStep
zaris_scan_next(ZarisScan *scan, ZarisRecord *record)
{
	ZarisScanStep step;

	for (;;)
	{
		while (!take_step(scan, record, &step))
			continue;
		if (!scan->client->unflushed)
			return step;

		/* What was asked for goes out now: the reader may use its rows for a while before it turns the client. */
		zaris_client_flush(scan->client);

		/* A store that answers at once has done so, and would not wake anybody who waits for it. */
		if (step != ZARIS_SCAN_WAIT)
			return step;
	}
}

/* life */

ZarisScan *
zaris_scan_begin(ZarisClient *client, const ZarisScanRequest *request)
{
	ZarisScan *scan = calloc(1, sizeof(*scan));

	if (scan == NULL)
		return NULL;
	scan->client = client;
	scan->request = *request;
	if (scan->request.page_size < 1)
		scan->request.page_size = 1;
	if (scan->request.page_size > INT16_MAX * 16)
		scan->request.page_size = INT16_MAX * 16;
	scan->deadline_us = ZARIS_NO_DEADLINE;
	scan->state = SCAN_NEXT_ROUND;
	scan->failure.text = "";
	scan->link.wake_at_us = ZARIS_FAR_FUTURE;
	zaris_fingerprints_init(&scan->seen, client->host.random(client->host.context));
	zaris_link_init(&scan->walks);
	zaris_link_init(&scan->link.link);
	zaris_link_add(&client->scans, &scan->link.link);
	return scan;
}

void
zaris_scan_set_deadline(ZarisScan *scan, uint64_t deadline_us)
{
	scan->deadline_us = deadline_us;
	for (ZarisLink *link = scan->walks.next; link != &scan->walks; link = link->next)
		zaris_walk_set_deadline(ZARIS_OF_LINK(ScanWalk, link, link), deadline_us);
}

const ZarisScanFailure *
zaris_scan_failure(const ZarisScan *scan)
{
	return &scan->failure;
}

const ZarisScanStats *
zaris_scan_stats(const ZarisScan *scan)
{
	return &scan->stats;
}

static void
release_scan(ZarisScan *scan, bool broken)
{
	if (scan == NULL)
		return;
	free_walks(scan, broken);
	while (scan->spare != NULL)
	{
		ScanPage *page = scan->spare;

		scan->spare = page->newer;
		zaris_page_free(page, broken);
	}
	zaris_fingerprints_free(&scan->seen);
	zaris_link_remove(&scan->link.link);
	free(scan->resume);
	free(scan);
}

void
zaris_scan_end(ZarisScan *scan)
{
	release_scan(scan, false);
}

void
zaris_scan_abandon(ZarisScan *scan)
{
	release_scan(scan, true);
}

void
zaris_scan_abandon_link(ZarisScanLink *link)
{
	zaris_scan_abandon(ZARIS_OF_LINK(ZarisScan, link, link));
}
