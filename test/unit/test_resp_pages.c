/*
 * test_resp_pages.c
 *	  What is asked of a node: pages of keys, the keys of slots, its state.
 */
#include "resp_node.h"

TEST(pages)
{
	static const Step steps[] = {
		HELLO,
		{"SCAN 0 MATCH a\\*\\?\\[\\\\]* COUNT 10 TYPE hash", "*2\r\n$20\r\n18446744073709551615\r\n*2\r\n$2\r\nk1\r\n$0\r\n\r\n"},
		{"SCAN 18446744073709551615 COUNT 10 TYPE hash", "*2\r\n$1\r\n0\r\n*0\r\n"},
		{"SCAN 0 COUNT 10 TYPE hash", "*2\r\n$20\r\n99999999999999999999\r\n*0\r\n"},
		END,
	};
	ZarisPageRequest request = {.prefix = {"a*?[\\]", 6}, .count = 10, .record = ZARIS_RECORD_HASH};
	ZarisOperation	*one;

	begin(steps);
	one = operation_of(batch, ZARIS_OP_SCAN_PAGE, ZARIS_RECORD_HASH, "");
	one->scan = &request;
	submit(one);
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK_INT(2, one->page->n);
	CHECK_BYTES("k1", one->page->records[0].key.data, one->page->records[0].key.len);
	CHECK(one->page->records[1].key.data != NULL);
	CHECK_BYTES("18446744073709551615", one->page->cursor.data, one->page->cursor.len);

	request.cursor = one->page->cursor;
	request.prefix.len = 0;
	one = operation_of(batch, ZARIS_OP_SCAN_PAGE, ZARIS_RECORD_HASH, "");
	one->scan = &request;
	submit(one);
	run_until(&n_answers, 2);
	CHECK_INT(0, one->page->n);
	CHECK(one->page->cursor.data == NULL);

	request.cursor.data = NULL;
	one = operation_of(batch, ZARIS_OP_SCAN_PAGE, ZARIS_RECORD_HASH, "");
	one->scan = &request;
	submit(one);
	run_until(&n_answers, 3);
	check_answer(one, ZARIS_PROTOCOL_ERROR, ZARIS_OUTCOME_IN_DOUBT);

	request.cursor = (ZarisBytes){"1\r\nFLUSHALL", 11};
	one = operation_of(batch, ZARIS_OP_SCAN_PAGE, ZARIS_RECORD_HASH, "");
	one->scan = &request;
	submit(one);
	run_until(&n_answers, 4);
	check_answer(one, ZARIS_INVALID_REQUEST, ZARIS_OUTCOME_NOT_SENT);
	end();
}

#define MYSELF "aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected 0-9"

TEST(the_keys_of_slots)
{
	static const Step steps[] = {
		HELLO,
		{"CLUSTER NODES", "$58\r\n" MYSELF "\r\n"},
		{"CLUSTER GETKEYSINSLOT 7 3", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"},
		{"CLUSTER GETKEYSINSLOT 8 3", "*3\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n"},
		{"CLUSTER GETKEYSINSLOT 9 3", "*2\r\n$1\r\nc\r\n$1\r\nd\r\n"},
		{"ASKING", "+OK\r\n"},
		{"TYPE a", "+string\r\n"},
		{"ASKING", "+OK\r\n"},
		{"TYPE b", "+list\r\n"},
		{"ASKING", "+OK\r\n"},
		{"TYPE c", "-ASK 9 10.0.0.2:7002\r\n"},
		{"ASKING", "+OK\r\n"},
		{"TYPE d", "+string\r\n"},
		{"ASKING", "+OK\r\n"},
		{"CLUSTER NODES", "$67\r\n" MYSELF " [9->-bb]\r\n"},
		END,
	};
	static const uint16_t slots[] = {7, 8, 9};
	ZarisSlotRequest	  request = {slots, 3, 3, ZARIS_RECORD_STRING};
	ZarisOperation		 *one;

	begin(steps);
	one = operation_of(batch, ZARIS_OP_LIST_SLOTS, ZARIS_RECORD_STRING, "");
	one->scan = &request;
	submit(one);
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK_INT(2, one->page->n);
	CHECK_BYTES("a", one->page->records[0].key.data, one->page->records[0].key.len);
	CHECK_BYTES("d", one->page->records[1].key.data, one->page->records[1].key.len);
	CHECK_INT(1, one->page->n_too_large);
	CHECK_INT(8, one->page->too_large[0]);
	CHECK_INT(0, one->page->before->n_open);
	CHECK_INT(1, one->page->after->n_open);
	end();
}

TEST(a_listing_that_fails_half_way)
{
	static const Step steps[] = {
		HELLO,
		{"CLUSTER NODES", "$58\r\n" MYSELF "\r\n"},
		{"CLUSTER GETKEYSINSLOT 7 3", "-LOADING x\r\n"},
		{"CLUSTER GETKEYSINSLOT 8 3", "*1\r\n$1\r\na\r\n"},
		{"CLUSTER NODES", "-NOPERM no\r\n"},
		{"CLUSTER GETKEYSINSLOT 7 3", "*0\r\n"},
		{"CLUSTER GETKEYSINSLOT 8 3", "*0\r\n"},
		END,
	};
	static const uint16_t slots[] = {7, 8};
	ZarisSlotRequest	  request = {slots, 2, 3, ZARIS_RECORD_STRING};
	ZarisOperation		 *one;
	ZarisOperation		 *two;

	begin(steps);
	one = operation_of(batch, ZARIS_OP_LIST_SLOTS, ZARIS_RECORD_STRING, "");
	two = operation_of(batch, ZARIS_OP_LIST_SLOTS, ZARIS_RECORD_STRING, "");
	one->scan = two->scan = &request;
	submit(one);
	submit(two);
	run_until(&n_answers, 2);
	check_answer(one, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED);
	check_answer(two, ZARIS_PERMISSION_DENIED, ZARIS_OUTCOME_REJECTED);
	end();
}

TEST(the_state_of_a_node_without_a_cluster)
{
	static const Step steps[] = {
		HELLO,
		{"CLUSTER NODES", "-ERR This instance has cluster support disabled\r\n"},
		{"ROLE", "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n+connected\r\n:1\r\n"},
		{"CLUSTER NODES", "-ERR unknown command 'CLUSTER'\r\n"},
		{"ROLE", "-NOPERM no\r\n"},
		{"CLUSTER NODES", "-LOADING x\r\n"},
		END,
	};
	ZarisOperation *one;

	begin(steps);
	submit(one = operation_of(batch, ZARIS_OP_NODE_STATE, ZARIS_RECORD_STRING, ""));
	run_until(&n_answers, 1);
	check_answer(one, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK(!one->node_state->primary && one->node_state->owned[0] == 1);
	submit(one = operation_of(batch, ZARIS_OP_NODE_STATE, ZARIS_RECORD_STRING, ""));
	run_until(&n_answers, 2);
	check_answer(one, ZARIS_OK, ZARIS_OUTCOME_APPLIED);
	CHECK(one->node_state->primary);
	submit(one = operation_of(batch, ZARIS_OP_NODE_STATE, ZARIS_RECORD_STRING, ""));
	run_until(&n_answers, 3);
	check_answer(one, ZARIS_UNAVAILABLE, ZARIS_OUTCOME_REJECTED);
	end();
}

int
main(void)
{
	RUN(pages);
	RUN(the_keys_of_slots);
	RUN(a_listing_that_fails_half_way);
	RUN(the_state_of_a_node_without_a_cluster);
	return test_end();
}
