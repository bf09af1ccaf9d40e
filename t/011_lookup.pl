# Pushdown: which keys a statement asks for, counted at the servers.  One GET for one key, however the key is given; no
# value where none is needed; a walk over the keys only where nothing else is possible.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use Zaris::Cluster;
use Zaris::Pg;

my $cluster = Zaris::Cluster->launch(replicas => 0);
my $pg = Zaris::Pg->new;
$cluster->wait_until_up;
$pg->server('kv', url => $cluster->url);
$pg->table('item', 'id int, value text, version bigint, expires_at timestamptz', key => 'item:<id>');
$pg->table('word', 'k text, v text', key => 'word:<k>');
$pg->table('line', 'doc int, n bigint, txt text, version bigint', key => 'line:<doc>:<n>', layout => 'hash');
$pg->table('flag', 'b boolean, v text', key => 'flag:<b>');
$pg->table('uid', 'u uuid, v text', key => 'uid:<u>');
$cluster->load({ map { ("item:$_" => "value $_") } 1 .. 5000 });
$cluster->load({ map { ("word:$_" => "v $_") } 'a', 'a%b', 'a_b', 'axb', 'a*b', 'a?b', 'a[b]', 'a\\b', 'abc', 'b', '' });
$cluster->load({ 'flag:t' => 'yes', 'flag:f' => 'no', 'uid:123e4567-e89b-12d3-a456-426614174000' => 'x' });
for my $doc (1 .. 3)
{
	$cluster->command('HSET', "line:$doc:$_", 'txt', "line $_", 'other', $doc) for 1 .. 10;
}
my $session = $pg->session;
$session->run('SELECT count(*) FROM item');    # connections and map are there

# What a statement gives, and which commands it takes: { get => 1 } exactly.
sub takes
{
	my ($commands, $sql, $expected, $name) = @_;
	my $result;
	my $counted = $cluster->counted(sub { $result = $session->run($sql) });
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$name //= $sql;
	is($result->{out}, $expected, $name) or diag $result->{stderr};
	is_deeply($counted, $commands, "... commands: $name") or diag explain $counted;
	return;
}

# Everything that reads keys one by one; CLUSTER commands and SCAN itself may come.
sub takes_about
{
	my ($check, $sql, $expected, $name) = @_;
	my $result;
	my $counted = $cluster->counted(sub { $result = $session->run($sql) });
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$name //= $sql;
	is($result->{out}, $expected, $name) or diag $result->{stderr};
	ok($check->($counted), "... commands: $name") or diag explain $counted;
	return;
}

sub scans_only { my ($c) = @_; return $c->{scan} && !grep { !/^(scan|cluster\|.*|type)$/ } keys %$c }

# ---- one key, one GET

takes({ get => 1 }, 'SELECT value FROM item WHERE id = 7', 'value 7', 'a literal');
takes({ get => 1 }, 'SELECT id, value FROM item WHERE 7 = id', '7|value 7', 'the other way round');
takes({ get => 1 }, 'SELECT value FROM item WHERE id = 7::bigint', 'value 7', 'an integer of another width');
takes({}, 'SELECT value FROM item WHERE id = 5000000000', '', 'a value that no key can have is not asked for');
takes({}, 'SELECT value FROM item WHERE id = NULL', '', 'NULL');
takes({}, 'SELECT value FROM item WHERE id = 1 AND id = 2', '', 'a contradiction');
takes({ get => 1 }, "SELECT value FROM item WHERE id = 7 AND value LIKE 'v%' AND id < 10", 'value 7', 'with filters');
takes({ get => 1 }, 'SELECT value FROM item WHERE id = (SELECT 3 + 4)', 'value 7', 'an expression');
takes({ get => 1 }, "SELECT value FROM item WHERE id = (CURRENT_DATE - CURRENT_DATE) + 7", 'value 7', 'a stable function');
takes({ get => 1 }, 'SELECT value FROM item WHERE id = (SELECT max(x) FROM generate_series(1, 7) x)', 'value 7',
	'a subquery that is evaluated once');
takes({ get => 1 }, "SELECT v FROM word WHERE k = 'abc'", 'v abc', 'text');
takes({ get => 1 }, "SELECT v FROM word WHERE k = 'abc'::varchar", 'v abc', 'varchar');
takes({ get => 1 }, q{SELECT v FROM word WHERE k = 'abc' COLLATE "C"}, 'v abc', 'another collation that compares bytes');
takes({ get => 1 }, "SELECT v FROM word WHERE k = ''", 'v ', 'the empty text');
takes({ get => 1 }, 'SELECT v FROM word WHERE k = current_user', '', 'a name');
takes({ get => 1 }, "SELECT v FROM word WHERE k LIKE 'a\\%b'", 'v a%b', 'LIKE without wildcards');
takes({ get => 1 }, 'SELECT v FROM flag WHERE b', 'yes', 'a boolean');
takes({ get => 1 }, 'SELECT v FROM flag WHERE NOT b', 'no', 'its opposite');
takes({ get => 1 }, 'SELECT v FROM flag WHERE b IS TRUE', 'yes');
takes({ get => 1 }, "SELECT v FROM uid WHERE u = '123E4567-E89B-12D3-A456-426614174000'", 'x', 'uuid');
takes({ hmget => 1 }, 'SELECT txt FROM line WHERE doc = 2 AND n = 3', 'line 3', 'two columns, a hash');

# ---- parameters, in plans that know no values

$session->run('SET plan_cache_mode = force_generic_plan');
$session->run("PREPARE one(int) AS SELECT value FROM item WHERE id = \$1;
	PREPARE big(bigint) AS SELECT value FROM item WHERE id = \$1;
	PREPARE many(int[]) AS SELECT value FROM item WHERE id = ANY (\$1);
	PREPARE two(int, bigint[]) AS SELECT doc, n FROM line WHERE doc = \$1 AND n = ANY (\$2);
	PREPARE pattern(text) AS SELECT count(*) FROM word WHERE k LIKE \$1");
takes({ get => 1 }, "EXECUTE one($_)", "value $_", "\$1 in a generic plan: $_") for 1, 2;
takes({}, 'EXECUTE one(NULL)', '', '... NULL');
takes({}, 'EXECUTE big(5000000000)', '', '... too large for the column');
takes({ get => 2 }, "EXECUTE many('{3,4,3,NULL}')", "value 3\nvalue 4", '... an array, without doubles and NULL');
takes({}, "EXECUTE many('{}')", '', '... an empty one');
takes({}, 'EXECUTE many(NULL)', '', '... none');
takes_about(sub { ($_[0]{exists} // 0) + ($_[0]{type} // 0) + ($_[0]{evalsha} // 0) + ($_[0]{hexists} // 0) == 2 && !$_[0]{scan} },
	"EXECUTE two(1, '{2,3}')", "1|2\n1|3", '... two columns, keys only');
takes_about(\&scans_only, "EXECUTE pattern('a*%')", 1, '... a LIKE pattern');
takes({}, 'EXECUTE pattern(NULL)', 0, '... a NULL pattern');
$session->run('RESET plan_cache_mode');
takes({ get => 1 }, "EXECUTE one(5)", "value 5", "the sixth EXECUTE and later: $_") for 1 .. 8;

# ---- lists

takes({ get => 3 }, 'SELECT value FROM item WHERE id IN (1, 2, 3, 2)', "value 1\nvalue 2\nvalue 3", 'IN');
takes({ get => 3 }, 'SELECT value FROM item WHERE id = 1 OR id = 3 OR id = ANY (ARRAY[1, 2])', "value 1\nvalue 3\nvalue 2", 'OR');
takes({ get => 2 }, "SELECT v FROM word WHERE k IN ('a', 'b') AND v <> ''", "v a\nv b");
takes({ hmget => 4 }, 'SELECT doc, n, txt FROM line WHERE doc IN (1, 2) AND n IN (1, 9)', "1|1|line 1\n1|9|line 9\n2|1|line 1\n2|9|line 9",
	'the product of two lists');
takes({ hmget => 2 }, 'SELECT doc, n, txt FROM line WHERE (doc, n) IN ((1, 2), (3, 4), (1, 2), (2, NULL))', "1|2|line 2\n3|4|line 4",
	'a list of whole keys');
takes({ hmget => 2 }, "SELECT n FROM line WHERE (doc = 1 AND n = 2 AND txt LIKE '%3') OR (3 = doc AND n = 4 AND txt <> '')", 4,
	'... with conditions on the rows');
takes({ get => 2 }, "SELECT id FROM item WHERE (id = 1 AND value = 'x') OR (id = 2 AND value <> 'x')", 2, '... of one column');
takes({ hmget => 2 }, 'SET plan_cache_mode = force_generic_plan; PREPARE tuples(int, int) AS
	SELECT n FROM line WHERE (doc, n) IN (($1, $2), ($2, $1)) AND txt IS NOT NULL; EXECUTE tuples(1, 2)', "2\n1", '... of parameters');
takes({ get => 2500 }, 'SELECT count(value) FROM item WHERE id = ANY (ARRAY(SELECT x FROM generate_series(1, 2500) x))', 2500,
	'more keys than a batch holds');
takes_about(\&scans_only, 'SELECT count(*) FROM item WHERE id = 1 OR id > 4999', 2, 'an OR that is no list of keys');

# ---- joins

$pg->sql('CREATE TABLE local AS SELECT x, x % 5 + 1 AS y FROM generate_series(1, 20) x; ANALYZE local');
for my $batched ('on', 'off')
{
	$session->run("SET zaris.batched_join = $batched");
	takes({ get => 20 }, 'SELECT count(i.value) FROM local JOIN item i ON i.id = local.x', 20, "a join by key (batched: $batched)");
	takes({ get => 20 }, 'SELECT count(i.value) FROM local LEFT JOIN item i ON i.id = local.x', 20, '... LEFT JOIN');

	# where no field is there, TYPE tells whether the record is
	takes({ hmget => 20, type => 10 }, 'SELECT count(l.txt) FROM local JOIN line l ON l.doc = 2 AND l.n = local.x', 10,
		'... one column from a constant, one from the other side');
	takes({ hmget => 20, type => 17 }, 'SELECT count(l.txt) FROM local JOIN line l ON l.doc = local.x AND l.n = local.y', 3,
		'... both');
}
$session->run('RESET zaris.batched_join; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off');
takes({ get => 20 }, 'SELECT sum((SELECT length(value) FROM item WHERE id = local.x)) FROM local', 151, 'a correlated subquery');
takes({ get => 20 }, 'SELECT count(value) FROM local, LATERAL (SELECT value FROM item WHERE id = local.x LIMIT 1) i', 20, 'LATERAL');
takes_about(sub { $_[0]{get} == 2 && !$_[0]{scan} },
	'SELECT i.value FROM line l JOIN item i ON i.id = l.n WHERE l.doc = 1 AND l.n IN (4, 5)', "value 4\nvalue 5",
	'from one foreign table to another');
$session->run('RESET ALL');

# ---- scans fetch what is needed

takes_about(\&scans_only, 'SELECT count(*) FROM item', 5000, 'count(*) fetches no value');
takes_about(\&scans_only, 'SELECT max(id) FROM item', 5000, 'nor do the keys');
takes_about(\&scans_only, 'SELECT count(*) FROM item WHERE id > 4000', 1000, '... nor filters on them');
takes_about(\&scans_only, 'SELECT count(*) FROM line', 30, '... nor in hashes');
takes_about(sub { $_[0]{get} == 5000 }, 'SELECT sum(length(value)) FROM item', 48893, 'values are fetched once');
takes_about(sub { $_[0]{hmget} == 30 && !$_[0]{hgetall} }, 'SELECT count(txt) FROM line', 30, 'a field, not the record');
takes_about(sub { ($_[0]{get} // 0) <= 50 && $_[0]{scan} <= 20 }, 'SELECT count(*) FROM (SELECT value FROM item LIMIT 1) l', 1,
	'LIMIT 1 fetches little');
takes_about(sub { ($_[0]{get} // 0) <= 5 }, 'SELECT count(value) FROM (SELECT value FROM item WHERE id = ANY
	(ARRAY(SELECT x FROM generate_series(1, 2500) x)) LIMIT 3) l', 3, '... also of many keys');

# ---- prefixes

for (
	[ "k LIKE 'a%'", 9 ], [ "k LIKE 'a*%'", 1 ], [ "k LIKE 'a?%'", 1 ], [ "k LIKE 'a[%'", 1 ], [ "k LIKE 'a\\\\%'", 1 ],
	[ "k LIKE 'a\\%%'", 1 ], [ "k LIKE 'a\\_b'", 1 ], [ "k LIKE 'a_b'", 6 ], [ "k LIKE 'a!%b%' ESCAPE '!'", 1 ],
	[ "k LIKE 'a%' ESCAPE ''", 9 ], [ "k ^@ 'a*'", 1 ], [ "k ^@ ''", 11 ], [ "starts_with(k, 'a[')", 1 ], [ "k LIKE '%b'", 7 ],
	[ "k NOT LIKE 'a%'", 2 ], [ "k LIKE 'a%' AND k LIKE '%c'", 1 ])
{
	my ($where, $n) = @$_;
	takes_about(sub { !$_[0]{get} }, "SELECT count(*) FROM word WHERE $where", $n);
	$n = 0;
	takes_about(sub { ($n = $_[0]{get} // 0) <= 11 }, "SELECT count(v) FROM word WHERE $where", $_->[1]);
}
takes_about(sub { $_[0]{get} == 1 }, "SELECT v FROM word WHERE k LIKE 'a*%'", 'v a*b', 'specials of MATCH are escaped');
takes_about(sub { $_[0]{get} == 9 }, "SELECT count(v) FROM word WHERE k LIKE 'a%'", 9, 'only keys with the prefix are fetched');
takes_about(sub { $_[0]{hmget} == 10 }, 'SELECT count(txt) FROM line WHERE doc = 2', 10, 'the leading column');
takes_about(sub { $_[0]{hmget} == 10 }, 'SELECT count(txt) FROM line WHERE doc = 2 AND n > 5', 5);
takes_about(sub { $_[0]{hmget} == 30 }, 'SELECT count(txt) FROM line WHERE n = 2', 3, 'not the leading column');
takes({}, 'SELECT count(*) FROM line WHERE doc = NULL', 0);

# ---- EXPLAIN sends nothing and tells what would be sent

sub explains
{
	my ($sql, @lines) = @_;
	my $result;
	my $counted = $cluster->counted(sub { $result = $pg->try("EXPLAIN (VERBOSE, COSTS OFF) $sql") });
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my @got = map { s/^ +//r } split /\n/, $result->{out};
	for my $line (@lines)
	{
		ok((grep { ref $line ? $_ =~ $line : $_ eq $line } @got), "EXPLAIN $sql: $line") or diag $result->{out}, $result->{stderr};
	}
	is_deeply($counted, {}, '... sends nothing');
	return;
}
explains('SELECT value FROM item WHERE id = 1', 'Operation: Get', 'Key: item:<id>', 'Bound: id = 1', 'Fetches: value');
explains('SELECT * FROM item WHERE id IN (1, 2)', 'Operation: Get many', "Bound: id = ANY ('{1,2}'::integer[])",
	'Fetches: value, version, expiry');
explains('SELECT txt FROM line WHERE (doc, n) IN ((1, 2), (3, 4))', 'Operation: Get many', 'Bound: (doc, n) IN ((1, 2), (3, 4))');
explains("SELECT * FROM item WHERE (id = 1 AND value = 'x') OR id = 2", 'Bound: id IN (1, 2)',
	'Filtered Locally: the list of keys says more than keys');
explains('SELECT count(*) FROM item', 'Operation: Scan', 'Key: item:*', 'Fetches: keys only');
explains('SELECT txt FROM line WHERE doc = 1 AND n > 2', 'Operation: Scan', 'Key: line:<doc>:*', 'Bound: doc = 1',
	'Fetches: field txt', 'Filter: (line.n > 2)',
	'Filtered Locally: the condition on key column "n" does not give its values');
explains("SELECT * FROM word WHERE k LIKE 'a%' AND v = 'x'", "Bound: k LIKE 'a%'::text",
	qr/^Filtered Locally: a pattern only narrows the keys that are scanned, a condition on "v", not on the key$/);
explains('SELECT txt, version FROM line WHERE n = 2', 'Fetches: field txt, version',
	'Filtered Locally: key column "doc" in front of "n" is not bound');
explains('SELECT * FROM item WHERE id = 1 + (random() * 3)::int', 'Operation: Scan');
like($pg->sql('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT value FROM item WHERE id IN (1, 2, 9999)'),
	qr/Requests: 3\n.*Round Trips: \d+\n.*Bytes Received: \d+/, 'ANALYZE counts');
set_kind();
like($pg->sql('EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT value FROM item WHERE id IN (1, 2, 9999)'), qr/Keys Skipped: 1\b/,
	'... and keys that are no rows');
like($pg->sql("SET plan_cache_mode = force_generic_plan; PREPARE p(int) AS SELECT value FROM item WHERE id = \$1;
	EXPLAIN (COSTS OFF) EXECUTE p(1)"), qr/Bound: id = \$1/, 'a parameter');
is($pg->sql("EXPLAIN (FORMAT JSON, ANALYZE, TIMING OFF) SELECT count(*) FROM item") =~ /"Round Trips": \d+/ ? 1 : 0, 1, 'JSON');

sub set_kind { return $cluster->command('HSET', 'item:9999', 'a', 1) }

done_testing();
