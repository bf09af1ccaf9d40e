/*
 * test_resp_login.c
 *	  Connecting and logging in, and what may go wrong there.
 */
#include "resp_node.h"

TEST(login_without_password)
{
	static const Step steps[] = {{"(connect)"}, HELLO, {"GET k", "$2\r\nvv\r\n"}, END};
	ZarisOperation	 *one;

	begin(steps);
	one = get("k");
	submit(one);
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK_BYTES("vv", one->result.data, one->result.len);
	CHECK_INT(1, zaris_resp_driver.connections(store));
	end();
}

/* A server drops the reply of a failing AUTH when others are pending, so AUTH is alone in flight. */
TEST(auth_comes_alone)
{
	static const Step steps[] = {
		{"AUTH bob secret", "+OK\r\n"},
		{"CLIENT SETNAME t", "+OK\r\n"},
		{"SELECT 3", "+OK\r\n"},
		{"GET k", "$-1\r\n"},
		END,
	};
	ZarisOperation *one;

	begin_as(steps, "bob", "secret", 3);
	one = get("k");
	submit(one);
	run_to(steps + 1);
	CHECK_INT(1, node.alone);
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_NOT_FOUND, ZARIS_OUTCOME_APPLIED);
	CHECK(one->result.data == NULL);
	end();
}

TEST(every_connection_logs_in)
{
	static const Step steps[] = {
		{"AUTH secret", "+OK\r\n"},
		HELLO,
		{"GET a", "$1\r\n1\r\n", CLOSE},
		{"AUTH secret", "+OK\r\n"},
		HELLO,
		{"GET b", "$1\r\n2\r\n"},
		END,
	};

	begin_as(steps, NULL, "secret", 0);
	submit(get("a"));
	run_until(&n_answers, 1);
	submit(get("b"));
	run_until(&n_answers, 2);
	end();
}

TEST(wrong_password)
{
	static const Step steps[] = {
		{"AUTH bad", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		END,
	};
	ZarisOperation *one;
	ZarisOperation *two;

	begin_as(steps, NULL, "bad", 0);
	submit(one = get("a"));
	submit(two = put_if(ZARIS_IF_ABSENT, "b", "v"));
	run_until(&n_answers, 2);
	check_answer(one, ZARIS_BAD_CREDENTIALS, ZARIS_OUTCOME_NOT_SENT);
	check_answer(two, ZARIS_BAD_CREDENTIALS, ZARIS_OUTCOME_NOT_SENT);
	CHECK_TEXT("WRONGPASS invalid username-password pair or user is disabled.", ((Seen *) two->user)->text);
	CHECK_INT(0, zaris_resp_driver.connections(store));
	end();
}

TEST(a_password_where_none_is_wanted)
{
	static const Step steps[] = {
		{"AUTH pw", "-ERR AUTH <password> called without any password configured for the default user.\r\n"}, END};
	ZarisOperation *one;

	begin_as(steps, NULL, "pw", 0);
	submit(one = get("a"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_BAD_CREDENTIALS, ZARIS_OUTCOME_NOT_SENT);
	end();
}

TEST(no_password_where_one_is_wanted)
{
	static const Step steps[] = {{"CLIENT SETNAME t", "-NOAUTH Authentication required.\r\n"}, END};
	ZarisOperation	 *one;

	begin(steps);
	submit(one = get("a"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_UNAUTHENTICATED, ZARIS_OUTCOME_NOT_SENT);
	end();
}

TEST(setname_may_be_refused)
{
	static const Step steps[] = {
		{"CLIENT SETNAME t", "-NOPERM this user has no permissions\r\n"}, {"GET a", "$1\r\nv\r\n"}, END};
	ZarisOperation *one;

	begin(steps);
	submit(one = get("a"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	end();
}

TEST(select_may_not)
{
	static const Step steps[] = {HELLO, {"SELECT 99", "-ERR DB index is out of range\r\n"}, END};
	ZarisOperation	 *one;

	begin_as(steps, NULL, NULL, 99);
	submit(one = get("a"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_INVALID_REQUEST, ZARIS_OUTCOME_NOT_SENT);
	CHECK_TEXT("ERR DB index is out of range", ((Seen *) one->user)->text);
	end();
}

TEST(too_many_clients)
{
	static const Step steps[] = {{"(connect)", "-ERR max number of clients reached\r\n", CLOSE}, END};
	ZarisOperation	 *one;
	ZarisOperation	 *two;

	begin(steps);
	node.silent = true;
	submit(one = get("a"));
	submit(two = put_if(ZARIS_IF_ABSENT, "b", "v"));
	run_until(&n_answers, 2);
	check_answer(one, ZARIS_TOO_MANY_CLIENTS, ZARIS_OUTCOME_REJECTED);
	check_answer(two, ZARIS_TOO_MANY_CLIENTS, ZARIS_OUTCOME_REJECTED);
	CHECK_INT(0, zaris_resp_driver.connections(store));
	end();
}

TEST(closed_during_login)
{
	static const Step steps[] = {{"CLIENT SETNAME t", NULL, CLOSE}, END};
	ZarisOperation	 *one;

	begin(steps);
	submit(one = put_if(ZARIS_IF_ABSENT, "a", "v"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_CONNECT_ERROR, ZARIS_OUTCOME_NOT_SENT);
	end();
}

/* It lets everybody in, and throws everybody out: that must not go round for ever. */
TEST(closed_behind_the_login)
{
	static const Step steps[] = {{"CLIENT SETNAME t", "+OK\r\n", CLOSE}, END};
	ZarisOperation	 *one;

	begin(steps);
	submit(one = get("a"));
	run_until(&n_answers, 1);
	CHECK_INT(ZARIS_TRANSPORT_ERROR, ((Seen *) one->user)->answer.status);
	CHECK_INT(1, node.n_peers);
	end();
}

TEST(connection_refused)
{
	ZarisOperation *one;

	begin(NULL);
	close(node.listener);
	submit(one = get("a"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_CONNECT_ERROR, ZARIS_OUTCOME_NOT_SENT);
	CHECK_TEXT("connection refused", ((Seen *) one->user)->text);
	node.listener = -1;
	end();
}

/* It listens, and that is all. */
TEST(a_silent_node)
{
	static const Step steps[] = {{"CLIENT SETNAME t", NULL, HANG}, END};
	ZarisOperation	 *one;
	uint64_t		  began = zaris_loop_now_us();

	begin(steps);
	submit(one = get("a"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_CONNECT_ERROR, ZARIS_OUTCOME_NOT_SENT);
	CHECK(zaris_loop_now_us() - began >= 190000 && zaris_loop_now_us() - began < 2000000);
	CHECK_INT(0, zaris_resp_driver.connections(store));
	end();
}

TEST(connect_timeout_is_for_the_login_only)
{
	static const Step steps[] = {HELLO, {"GET a", NULL}, END};

	begin(steps);
	submit(get("a"));
	zaris_resp_driver.flush(store);
	for (int i = 0; i < 400; i++)
		turn();
	CHECK_INT(0, n_answers);
	zaris_resp_driver.disconnect(store, 5);
	CHECK_INT(1, n_answers);
	end();
}

/* NOAUTH on a connection that was logged in: once more, in the same attempt; what is asked meanwhile waits. */
TEST(login_again)
{
	static const Step steps[] = {
		{"AUTH pw", "+OK\r\n"},
		HELLO,
		{"GET a", "-NOAUTH Authentication required.\r\n"},
		{"GET b", "$1\r\nb\r\n"},
		{"GET c", "-NOAUTH Authentication required.\r\n"},
		{"AUTH pw", "+OK\r\n"},
		{"GET a", "$1\r\na\r\n"},
		{"GET c", "$1\r\nc\r\n"},
		END,
	};
	ZarisOperation *one;
	ZarisOperation *three;

	begin_as(steps, NULL, "pw", 0);
	submit(one = get("a"));
	submit(get("b"));
	submit(three = get("c"));
	run_until(&n_answers, 3);
	check_answer(one, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	check_answer(three, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK_INT(1, node.n_peers);
	end();
}

TEST(login_again_but_once_only)
{
	static const Step steps[] = {
		{"AUTH pw", "+OK\r\n"},
		HELLO,
		{"GET a", "-NOAUTH Authentication required.\r\n"},
		{"AUTH pw", "+OK\r\n"},
		{"GET a", "-NOAUTH Authentication required.\r\n"},
		END,
	};
	ZarisOperation *one;

	begin_as(steps, NULL, "pw", 0);
	submit(one = get("a"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_UNAUTHENTICATED, ZARIS_OUTCOME_REJECTED);
	end();
}

TEST(login_again_with_a_password_that_is_wrong_by_now)
{
	static const Step steps[] = {
		{"AUTH pw", "+OK\r\n"},
		HELLO,
		{"GET a", "-NOAUTH Authentication required.\r\n"},
		{"AUTH pw", "-WRONGPASS no\r\n"},
		END,
	};
	ZarisOperation *one;

	begin_as(steps, NULL, "pw", 0);
	submit(one = get("a"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_BAD_CREDENTIALS, ZARIS_OUTCOME_NOT_SENT);
	end();
}

TEST(noauth_without_a_password)
{
	static const Step steps[] = {HELLO, {"GET a", "-NOAUTH Authentication required.\r\n"}, END};
	ZarisOperation	 *one;

	begin(steps);
	submit(one = get("a"));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_UNAUTHENTICATED, ZARIS_OUTCOME_REJECTED);
	end();
}

int
main(void)
{
	RUN(login_without_password);
	RUN(auth_comes_alone);
	RUN(every_connection_logs_in);
	RUN(wrong_password);
	RUN(a_password_where_none_is_wanted);
	RUN(no_password_where_one_is_wanted);
	RUN(setname_may_be_refused);
	RUN(select_may_not);
	RUN(too_many_clients);
	RUN(closed_during_login);
	RUN(closed_behind_the_login);
	RUN(connection_refused);
	RUN(a_silent_node);
	RUN(connect_timeout_is_for_the_login_only);
	RUN(login_again);
	RUN(login_again_but_once_only);
	RUN(login_again_with_a_password_that_is_wrong_by_now);
	RUN(noauth_without_a_password);
	return test_end();
}
