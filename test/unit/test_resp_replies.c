/*
 * test_resp_replies.c
 *	  Replies: their order, lost ones, those of a wrong shape, and garbage.
 */
#include "resp_node.h"

TEST(replies_byte_by_byte)
{
	static const Step steps[] = {
		HELLO,
		{"GET a", "$1\r\na\r\n"},
		{"HGETALL h", "*4\r\n$1\r\ny\r\n$0\r\n\r\n$1\r\nx\r\n$3\r\n1\r\n\r\n"},
		END,
	};
	ZarisOperation *one;
	ZarisOperation *two;

	begin(steps);
	node.byte_by_byte = true;
	submit(one = get("a"));
	submit(two = get_hash("h", NULL, 0));
	run_until(&n_answers, 2);
	CHECK_BYTES("a", one->result.data, one->result.len);
	check_answer(two, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK_INT(2, two->n_all_fields);
	CHECK_BYTES("x", two->all_fields[0].name.data, two->all_fields[0].name.len);
	CHECK_BYTES("1\r\n", two->all_fields[0].value.data, two->all_fields[0].value.len);
	CHECK(two->all_fields[1].value.data != NULL);
	CHECK_INT(0, two->all_fields[1].value.len);
	end();
}

TEST(pushes_are_passed_over)
{
	static const Step steps[] = {
		HELLO,
		{"GET a", ">2\r\n+invalidate\r\n*1\r\n$1\r\na\r\n|1\r\n+ttl\r\n:3\r\n$1\r\na\r\n>1\r\n+x\r\n"},
		{"GET b", "$1\r\nb\r\n"},
		END,
	};
	ZarisOperation *one;
	ZarisOperation *two;

	begin(steps);
	submit(one = get("a"));
	submit(two = get("b"));
	run_until(&n_answers, 2);
	CHECK_BYTES("a", one->result.data, one->result.len);
	CHECK_BYTES("b", two->result.data, two->result.len);
	end();
}

TEST(lost_in_the_middle)
{
	static const Step steps[] = {HELLO, {"GET a", "$1\r\na\r\n"}, {"GET b", "$5\r\nhal", CLOSE}, END};
	ZarisOperation	 *one;
	ZarisOperation	 *two;
	ZarisOperation	 *three;

	begin(steps);
	submit(one = get("a"));
	submit(two = get("b"));
	submit(three = put_if(ZARIS_IF_ABSENT, "c", "v"));
	run_until(&n_answers, 3);
	check_answer(one, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	check_answer(two, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT);
	check_answer(three, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT);
	end();
}

/* More than the kernel's buffers hold, to a node that does not read: what did not leave whole cannot have run. */
TEST(not_every_byte_left)
{
	static const Step steps[] = {HELLO, {"SET a 1 NX", NULL, HANG}, END};
	size_t			  size = 32 * 1024 * 1024;
	char			 *value = malloc(size);
	ZarisOperation	 *one;
	ZarisOperation	 *two;

	begin(steps);
	memset(value, 'v', size);
	submit(one = put_if(ZARIS_IF_ABSENT, "a", "1"));
	run_to(steps + 2);
	two = put_if(ZARIS_IF_ABSENT, "b", "");
	two->value = (ZarisBytes){value, size};
	submit(two);
	zaris_resp_driver.flush(store);
	idle();
	zaris_resp_driver.disconnect(store, 5);
	CHECK_INT(2, n_answers);
	check_answer(one, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT);
	check_answer(two, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_NOT_SENT);
	end();
	free(value);
}

TEST(an_idle_connection_that_was_closed)
{
	static const Step steps[] = {
		HELLO, {"GET a", "$1\r\na\r\n", CLOSE}, HELLO, {"SET b v NX", "+OK\r\n"}, END};
	ZarisOperation *two;

	begin(steps);
	submit(get("a"));
	run_until(&n_answers, 1);

	/* no turn in between: only looking at the socket can tell */
	submit(two = put_if(ZARIS_IF_ABSENT, "b", "v"));
	run_until(&n_answers, 2);
	check_answer(two, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK(two->has_version);
	end();
}

TEST(a_reply_of_another_shape)
{
	static const Step steps[] = {
		HELLO, {"GET a", ":5\r\n"}, {"GET b", NULL}, HELLO, {"GET c", "$1\r\nc\r\n"}, END};
	ZarisOperation *one;
	ZarisOperation *two;
	ZarisOperation *three;

	begin(steps);
	submit(one = get("a"));
	submit(two = get("b"));
	run_until(&n_answers, 2);
	check_answer(one, ZARIS_PROTOCOL_ERROR, ZARIS_OUTCOME_IN_DOUBT);
	check_answer(two, ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_IN_DOUBT);
	submit(three = get("c"));
	run_until(&n_answers, 3);
	check_answer(three, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	end();
}

TEST(garbage)
{
	static const char *const texts[] = {
		"HTTP/1.1 400\r\n", "*4294967295\r\n", "$-2\r\n", "$99999999999999999999\r\n", "+OK\n\n", "\x15\x03\x01\r\n"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
	{
		Step			steps[] = {HELLO, {"GET a", texts[i]}, HELLO, {"GET b", "$1\r\nb\r\n"}, END};
		ZarisOperation *one;
		ZarisOperation *two;

		begin(steps);
		submit(one = get("a"));
		run_until(&n_answers, 1);
		check_answer(one, ZARIS_PROTOCOL_ERROR, ZARIS_OUTCOME_IN_DOUBT);
		submit(two = get("b"));
		run_until(&n_answers, 2);
		check_answer(two, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
		end();
	}
}

TEST(garbage_instead_of_a_login)
{
	static const Step steps[] = {{"(connect)", "SSH-2.0-OpenSSH_9.2\r\n"}, END};
	ZarisOperation	 *one;

	begin(steps);
	node.silent = true;
	submit(one = put_if(ZARIS_IF_ABSENT, "a", "v"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_PROTOCOL_ERROR, ZARIS_OUTCOME_NOT_SENT);
	end();
}

TEST(wrong_shapes_of_all_kinds)
{
	static const char *const shapes[] = {":5\r\n", "+x\r\n", "*1\r\n:1\r\n", "*0\r\n", "_\r\n", "$1\r\nx\r\n", "#t\r\n", ",1\r\n", "%1\r\n+a\r\n+b\r\n"};
	static ZarisField		 field = {{"f", 1}, {NULL, 0}};
	static ZarisPageRequest	 page = {.count = 10};
	static uint16_t			 slot = 7;
	static ZarisSlotRequest	 listing = {&slot, 1, 10, ZARIS_RECORD_STRING};

	for (int kind = 0; kind < 8; kind++)
	{
		for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		{
			ZarisOperation *one;
			Step			steps[] = {HELLO, {"", shapes[i]}, END};
			char			expect[128];

			switch (kind)
			{
				case 0:
					strcpy(expect, "GET a");
					break;
				case 1:
					strcpy(expect, "TYPE a");
					break;
				case 2:
					strcpy(expect, "HMGET a f");
					break;
				case 3:
					strcpy(expect, "HGETALL a");
					break;
				case 4:
					strcpy(expect, "SET a v NX");
					break;
				case 5:
					strcpy(expect, "EVAL # 1 a p k v");
					break;
				case 6:
					strcpy(expect, "SCAN 0 COUNT 10 TYPE string");
					break;
				case 7:
					strcpy(expect, "CLUSTER NODES");
					break;
			}
			steps[1].expect = expect;
			begin(steps);
			node.silent = true;
			one = kind == 4 ? put_if(ZARIS_IF_ABSENT, "a", "v") : kind == 5 ? put_if(ZARIS_IF_PRESENT, "a", "v")
															  : kind == 2	? get_hash("a", &field, 1)
															  : kind == 3	? get_hash("a", NULL, 0)
																			: get("a");
			if (kind == 1)
				one->want = 0;
			if (kind == 6)
			{
				one->kind = ZARIS_OP_SCAN_PAGE;
				one->scan = &page;
			}
			if (kind == 7)
			{
				one->kind = ZARIS_OP_LIST_SLOTS;
				one->scan = &listing;
			}
			submit(one);
			zaris_resp_driver.flush(store);
			for (int turns = 0; n_answers == 0 && turns < 300; turns++)
				turn();
			if (n_answers == 0)
				zaris_resp_driver.disconnect(store, 5); /* it asked on: that shape was one to go on from */
			CHECK_INT(1, n_answers);
			end();
		}
	}
}

int
main(void)
{
	RUN(replies_byte_by_byte);
	RUN(pushes_are_passed_over);
	RUN(lost_in_the_middle);
	RUN(not_every_byte_left);
	RUN(an_idle_connection_that_was_closed);
	RUN(a_reply_of_another_shape);
	RUN(garbage);
	RUN(garbage_instead_of_a_login);
	RUN(wrong_shapes_of_all_kinds);
	return test_end();
}
