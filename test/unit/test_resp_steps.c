/*
 * test_resp_steps.c
 *	  What an error reply leads to, operations of several steps, and scripts.
 */
#include "resp_node.h"

#include "client/version.h"

TEST(a_redirect_that_makes_no_sense)
{
	static const Step steps[] = {
		HELLO,
		{"GET a", "-MOVED 99999 x:99999\r\n"},
		HELLO,
		{"GET a", "-MOVED 15495 10.0.0.7:7007\r\n"},
		{"GET a", "-ASK 15495 :7007\r\n"},
		{"GET a", "-MOVED 15495 ?:7007\r\n"},
		END,
	};
	ZarisOperation *one;

	begin(steps);
	submit(one = get("a"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_PROTOCOL_ERROR, ZARIS_OUTCOME_REJECTED);
	submit(one = get("a"));
	run_until(&n_answers, 2);
	check_answer(one, ZARIS_MOVED, ZARIS_OUTCOME_REJECTED);
	CHECK_INT(ZARIS_REDIRECT_MOVED, ((Seen *) one->user)->answer.redirect);
	CHECK_INT(15495, ((Seen *) one->user)->answer.slot);
	CHECK_TEXT("10.0.0.7", ((Seen *) one->user)->answer.target.host);
	submit(one = get("a"));
	run_until(&n_answers, 3);
	check_answer(one, ZARIS_OWNERSHIP_CHANGING, ZARIS_OUTCOME_REJECTED);
	CHECK_INT(ZARIS_REDIRECT_ASK, ((Seen *) one->user)->answer.redirect);
	CHECK_TEXT("127.0.0.1", ((Seen *) one->user)->answer.target.host);
	submit(one = get("a"));
	run_until(&n_answers, 4);
	check_answer(one, ZARIS_MOVED, ZARIS_OUTCOME_REJECTED);
	CHECK_INT(ZARIS_REDIRECT_NONE, ((Seen *) one->user)->answer.redirect);
	end();
}

/* What is in flight on it is answered first; then it is closed, and what was asked meanwhile goes by a new one. */
TEST(a_demoted_primary)
{
	static const Step steps[] = {
		HELLO,
		{"SET a v NX", "-READONLY You can't write against a read only replica.\r\n"},
		{"GET b", NULL},
		HELLO,
		{"GET c", "$1\r\nc\r\n"},
		END,
	};
	ZarisOperation *one;
	ZarisOperation *two;
	ZarisOperation *three;

	begin(steps);
	submit(one = put_if(ZARIS_IF_ABSENT, "a", "v"));
	submit(two = get("b"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_REPLICA_WRITE_REJECTED, ZARIS_OUTCOME_REJECTED);
	submit(three = get("c"));
	zaris_resp_driver.flush(store);
	idle();
	CHECK_INT(1, n_answers);
	CHECK_INT(1, node.n_peers);
	peer_say(&node.peers[0], "$1\r\nb\r\n", 7);
	run_until(&n_answers, 3);
	check_answer(two, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	check_answer(three, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK_INT(1, node_connections());
	end();
}

TEST(a_transient_error_voids_the_attempt)
{
	static const Step steps[] = {
		HELLO,
		{"GET a", "$1\r\na\r\n"},
		{"PEXPIRETIME a", "-LOADING Redis is loading the dataset in memory\r\n"},
		{"GET b", "-WRONGTYPE no\r\n"},
		{"PEXPIRETIME b", "-MOVED 3300 10.0.0.7:7007\r\n"},
		{"GET c", "-WRONGTYPE no\r\n"},
		{"PEXPIRETIME c", ":-1\r\n"},
		{"GET d", "$1\r\nd\r\n"},
		{"PEXPIRETIME d", ":-2\r\n"},
		{"GET e", "$1\r\ne\r\n"},
		{"PEXPIRETIME e", ":1700000000000\r\n"},
		END,
	};
	static const ZarisStatus statuses[] = {ZARIS_UNAVAILABLE, ZARIS_MOVED, ZARIS_WRONG_TYPE, ZARIS_NOT_FOUND, ZARIS_OK};
	ZarisOperation			*operations[5];

	begin(steps);
	for (int i = 0; i < 5; i++)
	{
		static const char *const keys[] = {"a", "b", "c", "d", "e"};

		operations[i] = get(keys[i]);
		operations[i]->want = ZARIS_WANT_VALUE | ZARIS_WANT_EXPIRY;
		submit(operations[i]);
	}
	run_until(&n_answers, 5);
	for (int i = 0; i < 5; i++)
		CHECK_INT(statuses[i], ((Seen *) operations[i]->user)->answer.status);
	CHECK_INT(1700000000000, operations[4]->expiry_ms);
	end();
}

TEST(asking_goes_before_each_command)
{
	static const Step steps[] = {
		HELLO,
		{"ASKING", "+OK\r\n"},
		{"GET a", "$1\r\na\r\n"},
		{"ASKING", "+OK\r\n"},
		{"PEXPIRETIME a", ":-1\r\n"},
		{"GET b", "$1\r\nb\r\n"},
		{"ASKING", "+OK\r\n"},
		{"SET c v NX", "$-1\r\n"},
		{"ASKING", "+OK\r\n"},
		{"TYPE c", "+string\r\n"},
		END,
	};
	ZarisOperation *one;
	ZarisOperation *three;

	begin(steps);
	one = get("a");
	one->want |= ZARIS_WANT_EXPIRY;
	submit_asking(one, true);
	submit(get("b"));
	submit_asking(three = put_if(ZARIS_IF_ABSENT, "c", "v"), true);
	run_until(&n_answers, 3);
	check_answer(one, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK_BYTES("a", one->result.data, one->result.len);
	check_answer(three, ZARIS_CONFLICT, ZARIS_OUTCOME_APPLIED);
	end();
}

/* second steps */

TEST(all_fields_nil)
{
	static const Step steps[] = {
		HELLO,
		{"HMGET h f", "*1\r\n$-1\r\n"},
		{"HMGET i f", "*1\r\n$-1\r\n"},
		{"HMGET j f", "*1\r\n$-1\r\n"},
		{"TYPE h", "+none\r\n"},
		{"TYPE i", "+hash\r\n"},
		{"TYPE j", "-CLUSTERDOWN The cluster is down\r\n"},
		END,
	};
	ZarisField		field = {{"f", 1}, {NULL, 0}};
	ZarisOperation *one;
	ZarisOperation *two;
	ZarisOperation *three;

	begin(steps);
	submit(one = get_hash("h", &field, 1));
	submit(two = get_hash("i", &field, 1));
	submit(three = get_hash("j", &field, 1));
	run_until(&n_answers, 3);
	check_answer(one, ZARIS_NOT_FOUND, ZARIS_OUTCOME_APPLIED);
	check_answer(two, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	check_answer(three, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED);
	end();
}

/* The expiry tells as well whether there is a hash. */
TEST(all_fields_nil_with_the_expiry)
{
	static const Step steps[] = {
		HELLO,
		{"HMGET h f", "*1\r\n$-1\r\n"},
		{"PEXPIRETIME h", ":-1\r\n"},
		{"HMGET i f", "*1\r\n$-1\r\n"},
		{"PEXPIRETIME i", ":-2\r\n"},
		END,
	};
	ZarisField		field = {{"f", 1}, {NULL, 0}};
	ZarisOperation *one;
	ZarisOperation *two;

	begin(steps);
	one = get_hash("h", &field, 1);
	two = get_hash("i", &field, 1);
	one->want |= ZARIS_WANT_EXPIRY;
	two->want |= ZARIS_WANT_EXPIRY;
	submit(one);
	submit(two);
	run_until(&n_answers, 2);
	check_answer(one, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK_INT(ZARIS_NO_EXPIRY, one->expiry_ms);
	check_answer(two, ZARIS_NOT_FOUND, ZARIS_OUTCOME_APPLIED);
	end();
}

/* A version is the whole record's, whatever fields are listed; few and many of them. */
TEST(fields_with_the_version)
{
	static const Step steps[] = {
		HELLO,
		{"HGETALL h", "*4\r\n$1\r\ny\r\n$2\r\n10\r\n$1\r\nx\r\n$0\r\n\r\n"},
		{"HGETALL h", "%2\r\n$1\r\ny\r\n$2\r\n10\r\n$1\r\nx\r\n$0\r\n\r\n"},
		{"HGETALL h", "*0\r\n"},
		END,
	};
	ZarisField		 all[2] = {{{"x", 1}, {"", 0}}, {{"y", 1}, {"10", 2}}};
	ZarisField		 fields[600] = {{{"x", 1}, {NULL, 0}}, {{"y", 1}, {NULL, 0}}, {{"z", 1}, {NULL, 0}}};
	static const int n_fields[] = {3, 600, 3};
	int64_t			 version;

	for (int i = 3; i < 600; i++)
		fields[i].name = fields[i % 3].name;
	CHECK(zaris_version_hash(all, 2, &version));
	begin(steps);
	for (int i = 0; i < 3; i++)
	{
		ZarisOperation *one = get_hash("h", fields, n_fields[i]);

		one->want |= ZARIS_WANT_VERSION;
		submit(one);
		run_until(&n_answers, i + 1);
		check_answer(one, i < 2 ? ZARIS_OK : ZARIS_NOT_FOUND, ZARIS_OUTCOME_APPLIED);
		if (i == 2)
			break;
		CHECK(one->has_version && one->version == version);
		CHECK(fields[0].value.data != NULL && fields[0].value.len == 0);
		CHECK_BYTES("10", fields[1].value.data, fields[1].value.len);
		CHECK(fields[2].value.data == NULL);
		if (i == 1)
			CHECK_BYTES("10", fields[598].value.data, fields[598].value.len);
	}
	end();
}

/* In the past like any other, but SET takes no PXAT below 1. */
TEST(an_expiry_before_1970)
{
	static const Step steps[] = {HELLO, {"SET a v NX PXAT 1", "+OK\r\n"}, {"EVAL # 1 a p 1 v", ":1\r\n"}, END};

	begin(steps);
	for (int i = 0; i < 2; i++)
	{
		ZarisOperation *one = put_if(i == 0 ? ZARIS_IF_ABSENT : ZARIS_IF_PRESENT, "a", "v");

		one->expiry = ZARIS_EXPIRY_SET;
		one->expires_at_ms = -5 * i;
		submit(one);
	}
	run_until(&n_answers, 2);
	end();
}

TEST(set_nx_refused)
{
	static const Step steps[] = {
		HELLO,
		{"SET a v NX", "$-1\r\n"},
		{"SET b v NX PXAT 5", "_\r\n"},
		{"SET c v NX", "$-1\r\n"},
		{"SET d v NX", "$-1\r\n"},
		{"TYPE a", "+string\r\n"},
		{"TYPE b", "+hash\r\n"},
		{"TYPE c", "+none\r\n"},
		{"TYPE d", NULL, CLOSE},
		END,
	};
	ZarisOperation *operations[4];

	begin(steps);
	for (int i = 0; i < 4; i++)
	{
		static const char *const keys[] = {"a", "b", "c", "d"};

		operations[i] = put_if(ZARIS_IF_ABSENT, keys[i], "v");
		if (i == 1)
		{
			operations[i]->expiry = ZARIS_EXPIRY_SET;
			operations[i]->expires_at_ms = 5;
		}
		submit(operations[i]);
	}
	run_until(&n_answers, 4);
	check_answer(operations[0], ZARIS_CONFLICT, ZARIS_OUTCOME_APPLIED);
	check_answer(operations[1], ZARIS_WRONG_TYPE, ZARIS_OUTCOME_APPLIED);
	check_answer(operations[2], ZARIS_CONFLICT, ZARIS_OUTCOME_APPLIED);

	/* it was not applied, though nobody knows why */
	check_answer(operations[3], ZARIS_TRANSPORT_ERROR, ZARIS_OUTCOME_REJECTED);
	end();
}

/* scripts */

TEST(scripts_are_sent_once)
{
	static const Step steps[] = {
		HELLO,
		{"EVAL # 1 a p k v", ":1\r\n"},
		{"EVALSHA % 1 b p k v", ":2\r\n"},
		{"EVALSHA % 1 c 00000000000000ff c v", "-NOSCRIPT No matching script. Please use EVAL.\r\n"},
		{"EVALSHA % 1 d fffffffffffffffe 77 v", ":0\r\n"},
		{"EVAL # 1 c 00000000000000ff c v", ":0\r\n"},
		END,
	};
	ZarisOperation			*operations[4];
	static const char *const keys[] = {"a", "b", "c", "d"};

	begin(steps);
	for (int i = 0; i < 4; i++)
	{
		operations[i] = put_if(i < 2 ? ZARIS_IF_PRESENT : ZARIS_IF_MATCH_VERSION, keys[i], "v");
		operations[i]->match_version = i == 2 ? 255 : -2;
		operations[i]->expiry = i < 2 ? ZARIS_EXPIRY_KEEP : i == 2 ? ZARIS_EXPIRY_CLEAR
																   : ZARIS_EXPIRY_SET;
		operations[i]->expires_at_ms = 77;
		submit(operations[i]);
	}
	run_until(&n_answers, 4);
	check_answer(operations[0], ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK(operations[0]->has_version);
	check_answer(operations[1], ZARIS_NOT_FOUND, ZARIS_OUTCOME_APPLIED);
	check_answer(operations[2], ZARIS_CONFLICT, ZARIS_OUTCOME_APPLIED);
	check_answer(operations[3], ZARIS_CONFLICT, ZARIS_OUTCOME_APPLIED);
	end();
}

/* What one stream has been told, the next one need not know. */
TEST(scripts_on_a_new_connection)
{
	static const Step steps[] = {
		HELLO,
		{"EVAL # 1 a p k v", ":1\r\n"},
		{"EVALSHA % 1 a p k v", ":1\r\n", CLOSE},
		HELLO,
		{"EVAL # 1 a p k v", ":1\r\n"},
		END,
	};

	begin(steps);
	for (int i = 0; i < 3; i++)
	{
		submit(put_if(ZARIS_IF_PRESENT, "a", "v"));
		run_until(&n_answers, i + 1);
		idle();
	}
	end();
}

TEST(noscript_for_ever)
{
	static const Step steps[] = {
		HELLO,
		{"EVAL # 1 a p k v", "-NOSCRIPT No matching script.\r\n"},
		{"EVAL # 1 a p k v", "-NOSCRIPT No matching script.\r\n"},
		END,
	};
	ZarisOperation *one;

	begin(steps);
	submit(one = put_if(ZARIS_IF_PRESENT, "a", "v"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_INVALID_REQUEST, ZARIS_OUTCOME_REJECTED);
	end();
}

TEST(hash_writes)
{
	static const Step steps[] = {
		HELLO,
		{"EVAL # 1 h a k 1 f v", "$16\r\n00000000000000ff\r\n"},
		{"EVALSHA % 1 h p k 1 f v g", ":4\r\n"},
		{"EVALSHA % 1 h p k 1 f v g", "$16\r\nffffffffffffffff\r\n"},
		{"EVALSHA % 1 h p k 1 f v g", ":3\r\n"},
		{"EVALSHA % 1 h p k 1 f v g", "$16\r\n000000000000000g\r\n"},
		END,
	};
	ZarisField		fields[2] = {{{"g", 1}, {NULL, 0}}, {{"f", 1}, {"v", 1}}};
	ZarisOperation *operations[5];

	begin(steps);
	for (int i = 0; i < 5; i++)
	{
		operations[i] = operation_of(batch, ZARIS_OP_PUT, ZARIS_RECORD_HASH, "h");
		operations[i]->precondition = i == 0 ? ZARIS_IF_ABSENT : ZARIS_IF_PRESENT;
		operations[i]->fields = i == 0 ? fields + 1 : fields;
		operations[i]->n_fields = i == 0 ? 1 : 2;
		submit(operations[i]);
	}
	run_until(&n_answers, 5);
	check_answer(operations[0], ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK(operations[0]->has_version);
	CHECK_INT(255, operations[0]->version);
	check_answer(operations[1], ZARIS_INVALID_REQUEST, ZARIS_OUTCOME_REJECTED);
	CHECK(!operations[1]->has_version);
	check_answer(operations[2], ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK_INT(-1, operations[2]->version);
	check_answer(operations[3], ZARIS_WRONG_TYPE, ZARIS_OUTCOME_APPLIED);
	check_answer(operations[4], ZARIS_PROTOCOL_ERROR, ZARIS_OUTCOME_IN_DOUBT); /* that is no version */
	end();
}

int
main(void)
{
	RUN(a_redirect_that_makes_no_sense);
	RUN(a_demoted_primary);
	RUN(a_transient_error_voids_the_attempt);
	RUN(asking_goes_before_each_command);
	RUN(all_fields_nil);
	RUN(all_fields_nil_with_the_expiry);
	RUN(fields_with_the_version);
	RUN(an_expiry_before_1970);
	RUN(set_nx_refused);
	RUN(scripts_are_sent_once);
	RUN(scripts_on_a_new_connection);
	RUN(noscript_for_ever);
	RUN(hash_writes);
	return test_end();
}
