/*
 * test_resp_leave.c
 *	  What is never sent, and leaving early: detaching, breaking off, closing.
 */
#include "resp_node.h"

TEST(refused_before_sending)
{
	ZarisOperation *operations[3];
	ZarisField		field = {{"f", 1}, {NULL, 0}};

	begin(NULL);
	operations[0] = operation_of(batch, ZARIS_OP_DELETE, ZARIS_RECORD_STRING, "a");
	operations[0]->precondition = ZARIS_IF_ABSENT;
	operations[1] = operation_of(batch, ZARIS_OP_PUT, ZARIS_RECORD_HASH, "a");
	operations[1]->precondition = ZARIS_IF_ABSENT;
	operations[1]->fields = &field;
	operations[1]->n_fields = 1;
	operations[2] = put_if(ZARIS_IF_ABSENT, "a", "");
	operations[2]->value.len = (size_t) 512 * 1024 * 1024 + 1; /* its length is looked at before its bytes */
	for (int i = 0; i < 3; i++)
		submit(operations[i]);
	run_until(&n_answers, 3);
	check_answer(operations[0], ZARIS_INVALID_REQUEST, ZARIS_OUTCOME_NOT_SENT);
	check_answer(operations[1], ZARIS_INVALID_REQUEST, ZARIS_OUTCOME_NOT_SENT);
	check_answer(operations[2], ZARIS_TOO_LARGE, ZARIS_OUTCOME_NOT_SENT);
	CHECK_INT(0, zaris_resp_driver.connections(store));
	end();
}

/* leaving early */

static void
detach(ZarisBatch *what, bool broken)
{
	in_detach = true;
	zaris_resp_driver.detach(store, what, broken);
	in_detach = false;
}

TEST(replies_to_nobody_are_counted_off)
{
	static const Step steps[] = {
		HELLO,
		{"GET a", NULL},
		{"GET b", NULL},
		{"PEXPIRETIME b", NULL},
		{"GET c", NULL},
		END,
	};
	ZarisBatch	   *other;
	ZarisOperation *two;
	ZarisOperation *three;

	begin(steps);
	other = zaris_batch_create(memory);
	submit(operation_of(other, ZARIS_OP_GET, ZARIS_RECORD_STRING, "a"));
	two = operation_of(other, ZARIS_OP_GET, ZARIS_RECORD_STRING, "b");
	two->want |= ZARIS_WANT_EXPIRY;
	submit(two);
	run_to(steps + 4);
	peer_say(&node.peers[0], "$1\r\na\r\n$1\r\n", 11); /* in the middle of a reply */
	turn();
	detach(other, false);
	zaris_batch_free(other);
	submit(three = get("c"));
	zaris_resp_driver.flush(store);
	idle();
	peer_say(&node.peers[0], "b\r\n:-1\r\n$1\r\nc\r\n", 15);
	run_until(&n_answers, 2); /* a and c */
	CHECK_BYTES("c", three->result.data, three->result.len);
	CHECK_INT(1, node.n_peers);
	end();
}

TEST(after_an_error_the_connection_is_closed)
{
	static const Step steps[] = {
		HELLO,
		{"GET a", NULL},
		{"SET b v NX", NULL},
		HELLO,
		{"GET c", "$1\r\nc\r\n"},
		END,
	};
	ZarisBatch	   *other;
	ZarisOperation *two;
	ZarisOperation *three;

	begin(steps);
	other = zaris_batch_create(memory);
	submit(operation_of(other, ZARIS_OP_GET, ZARIS_RECORD_STRING, "a"));
	submit(two = put_if(ZARIS_IF_ABSENT, "b", "v"));
	run_to(steps + 3);

	/* composed, not sent: it may go by the next connection */
	submit(three = get("c"));
	detach(other, true);
	zaris_batch_free(other);
	CHECK_INT(0, n_answers);
	turn_until(&n_answers, 2);
	check_answer(two, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT);
	check_answer(three, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK_INT(1, node_connections());
	end();
}

/* An ending that waits for the next turn is not given to a batch that has left meanwhile. */
TEST(one_leaves_after_the_other)
{
	static const Step steps[] = {HELLO, {"GET a", NULL}, {"GET b", NULL}, END};
	ZarisBatch		 *first;
	ZarisBatch		 *second;

	begin(steps);
	first = zaris_batch_create(memory);
	second = zaris_batch_create(memory);
	submit(operation_of(first, ZARIS_OP_GET, ZARIS_RECORD_STRING, "a"));
	submit(operation_of(second, ZARIS_OP_GET, ZARIS_RECORD_STRING, "b"));
	run_to(steps + 3);
	detach(first, true);
	zaris_batch_free(first);
	detach(second, true);
	zaris_batch_free(second);
	idle();
	CHECK_INT(0, n_answers);
	end();
}

/* Nobody wants it any more, so it must not run. */
TEST(what_was_not_sent_is_taken_back)
{
	static const Step steps[] = {
		{"CLIENT SETNAME t", NULL},
		{"GET c", "$1\r\nc\r\n"},
		{"GET d", "$1\r\nd\r\n"},
		END,
	};
	ZarisBatch	   *other;
	ZarisOperation *one;

	for (int broken = 0; broken < 2; broken++)
	{
		begin(steps);
		other = zaris_batch_create(memory);
		one = operation_of(other, ZARIS_OP_PUT, ZARIS_RECORD_STRING, "a");
		one->value = (ZarisBytes){"v", 1};
		submit(one);
		submit(get("c"));
		submit(operation_of(other, ZARIS_OP_GET, ZARIS_RECORD_STRING, "b"));
		submit(get("d"));
		run_to(steps + 1);
		detach(other, broken == 1);
		zaris_batch_free(other);
		peer_say(&node.peers[0], "+OK\r\n", 5);
		run_until(&n_answers, 2);
		CHECK_INT(1, node.n_peers);
		end();
	}
}

TEST(a_connection_that_nobody_waits_for_is_given_up)
{
	static const Step steps[] = {{"CLIENT SETNAME t", NULL}, END};

	begin(steps);
	submit(get("a"));
	run_to(steps + 1);
	CHECK_INT(1, zaris_resp_driver.connections(store));
	detach(batch, true);
	CHECK_INT(0, zaris_resp_driver.connections(store));
	idle();
	CHECK_INT(0, node_connections());
	CHECK_INT(0, n_answers);
	end();
}

TEST(too_many_replies_to_nobody)
{
	static const Step steps[] = {HELLO, {"GET b", "$1\r\nb\r\n"}, END};
	static const Step later[] = {HELLO, {"GET b", "$1\r\nb\r\n"}, END};
	ZarisBatch		 *other;

	begin(steps);
	submit(get("b"));
	run_until(&n_answers, 1);
	other = zaris_batch_create(memory);
	node.silent = true;
	for (int i = 0; i < 10001; i++)
		submit(operation_of(other, ZARIS_OP_GET, ZARIS_RECORD_STRING, "a"));
	zaris_resp_driver.flush(store);
	detach(other, false);
	zaris_batch_free(other);
	CHECK_INT(0, zaris_resp_driver.connections(store));
	idle();
	node.steps = later;
	submit(get("b"));
	run_until(&n_answers, 2);

	/* those of the old connection do not count against the new one */
	other = zaris_batch_create(memory);
	submit(operation_of(other, ZARIS_OP_GET, ZARIS_RECORD_STRING, "c"));
	zaris_resp_driver.flush(store);
	detach(other, false);
	zaris_batch_free(other);
	CHECK_INT(1, zaris_resp_driver.connections(store));
	end();
}

TEST(breaking_off_answers_at_once)
{
	static const Step steps[] = {HELLO, {"SET a v NX", NULL}, END};
	ZarisOperation	 *one;
	ZarisOperation	 *two;

	begin(steps);
	submit(one = put_if(ZARIS_IF_ABSENT, "a", "v"));
	run_to(steps + 2);
	submit(two = put_if(ZARIS_IF_ABSENT, "b", "v"));
	zaris_resp_driver.disconnect(store, 5);
	CHECK_INT(2, n_answers);
	check_answer(one, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT);
	check_answer(two, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_NOT_SENT);
	CHECK_INT(0, zaris_resp_driver.connections(store));
	zaris_resp_driver.disconnect(store, 6);
	end();
}

TEST(closing_with_work_in_flight)
{
	static const Step steps[] = {HELLO, {"GET a", NULL}, END};

	begin(steps);
	submit(get("a"));
	run_to(steps + 2);
	submit(get("b"));
	end();
	CHECK_INT(0, n_answers);
}

int
main(void)
{
	RUN(refused_before_sending);
	RUN(replies_to_nobody_are_counted_off);
	RUN(after_an_error_the_connection_is_closed);
	RUN(one_leaves_after_the_other);
	RUN(what_was_not_sent_is_taken_back);
	RUN(a_connection_that_nobody_waits_for_is_given_up);
	RUN(too_many_replies_to_nobody);
	RUN(breaking_off_answers_at_once);
	RUN(closing_with_work_in_flight);
	return test_end();
}
