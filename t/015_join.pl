# The batched lookup join: it gives what a nested loop gives, asks for each key of a group once, in few round trips, and
# stays out of the way where it would be wrong.
use strict;
use warnings;

use List::Util qw(sum0);
use Test::More;
use Zaris::Cluster;
use Zaris::Pg;
use Zaris::Single;

my $cluster = Zaris::Cluster->launch(replicas => 0);
my $single = Zaris::Single->new;
my $pg = Zaris::Pg->new(conf => "jit = off\nautovacuum = off\nmax_parallel_workers_per_gather = 0\n");
$cluster->wait_until_up;

# ---- the same content in the store and in local tables

$pg->server('one', url => $single->url);
$pg->server('kv', url => $cluster->url);
$pg->table('item', 'id int, value text, version bigint', key => 'item:<id>');
$pg->table('person', 'tenant text, id bigint, name text, age int', key => 'p:<tenant>:<id>', layout => 'hash');
$pg->table('single', 'id int, value text', key => 'item:<id>', server => 'one');
$pg->table('small', 'id int, value text', key => 'item:<id>', server => 'one', batch_size => 7);
$pg->sql(q{
	CREATE TABLE item_copy AS SELECT i AS id, 'v' || i AS value FROM generate_series(0, 2998, 2) i;
	CREATE TABLE person_copy AS SELECT chr(97 + i % 3) AS tenant, i::bigint AS id,
		CASE WHEN i % 7 > 0 THEN 'name ' || i % 50 END AS name, CASE WHEN i % 5 > 0 THEN i % 90 END AS age
		FROM generate_series(1, 600) i;
	INSERT INTO item SELECT * FROM item_copy;
	INSERT INTO single SELECT * FROM item_copy;
	INSERT INTO person SELECT * FROM person_copy WHERE name IS NOT NULL OR age IS NOT NULL;
	DELETE FROM person_copy WHERE name IS NULL AND age IS NULL;

	-- outer rows: matches, misses, doubles, NULLs, and numbers that an int cannot hold
	CREATE TABLE o AS SELECT i AS n, CASE WHEN i % 11 > 0 THEN (i * 7) % 3300 - 100 END AS id,
		CASE WHEN i % 13 > 0 THEN i::bigint * 2 + CASE WHEN i % 17 = 0 THEN 4294967296 ELSE 0 END END AS big,
		CASE WHEN i % 19 > 0 THEN chr(97 + i % 4) END AS tenant, (i % 40)::smallint AS small,
		ARRAY[i, NULL, i + 1, i + 2, i] AS ids, 'v' || i AS value
		FROM generate_series(1, 1200) i;
	CREATE TABLE few AS SELECT i AS n, i * 2 AS id FROM generate_series(1, 5) i;
	CREATE TABLE one_row AS SELECT 1 AS n;
	ANALYZE;
});

my $session = $pg->session;
$session->run("LOAD 'zaris_fdw'; SET enable_hashjoin = off; SET enable_mergejoin = off; SET constraint_exclusion = on");

sub rows_of
{
	my ($sql) = @_;
	my $result = $session->run($sql);
	BAIL_OUT("$sql\n$result->{stderr}") if $result->{lost};
	return $result->{sqlstate} eq '00000' ? join("\n", sort split(/\n/, $result->{out})) : $result->{stderr};
}

sub batched
{
	my ($on) = @_;
	$session->run('SET zaris.batched_join = ' . ($on ? 'on' : 'off'));
	return;
}

sub plan_of
{
	my ($sql, $options) = @_;
	return $session->run('EXPLAIN (COSTS OFF' . ($options // '') . ") $sql")->{out};
}

sub is_batched { return $_[0] =~ /Custom Scan \(Zaris Lookup Join\)/ }

# ---- what it looks like

my $sql = 'SELECT n, i.value FROM o LEFT JOIN item i ON i.id = o.id AND i.value <> o.value WHERE n < 100';
is(plan_of($sql), <<'END' =~ s/\n\z//r, 'EXPLAIN');
Custom Scan (Zaris Lookup Join)
  Join Type: Left
  Foreign Table: item
  Operation: Get many, batched
  Key: item:<id>
  Bound: id = o.id
  Join Cond: ((i.value <> o.value) AND (i.id = o.id))
  Fetches: value
  ->  Seq Scan on o
        Filter: (n < 100)
END
like(plan_of($sql, ', VERBOSE'), qr/Foreign Table: public\.item\n.*Batch Size: 1000/s, 'EXPLAIN (VERBOSE)');
like($session->run("EXPLAIN (SETTINGS) $sql; SET zaris.batched_join = off; EXPLAIN (SETTINGS) $sql")->{out},
	qr/zaris\.batched_join = 'off'/, 'the setting is told when it is off');

# ---- the same rows as a nested loop, and as local tables

# Each with ITEM and PERSON in place of the tables; 1 = the join must be batched, 0 = it must not, undef = as it likes
my @queries = (
	[ 1, 'SELECT * FROM o JOIN ITEM i ON i.id = o.id' ],
	[ 1, 'SELECT o.n, i.value FROM o JOIN ITEM i USING (id) WHERE i.value LIKE \'%8\'' ],
	[ 1, 'SELECT o.n, i.id FROM o LEFT JOIN ITEM i ON i.id = o.id' ],
	[ 1, 'SELECT o.n, i.value FROM o LEFT JOIN ITEM i ON i.id = o.id AND i.value <> \'v200\' AND o.n % 2 = 0' ],
	[ 1, 'SELECT o.n, i.value FROM o LEFT JOIN ITEM i ON i.id = o.id WHERE i.value IS NULL OR length(i.value) < 4' ],
	[ 1, 'SELECT o.n FROM o LEFT JOIN ITEM i ON i.id = o.id WHERE i.id IS NULL' ],
	[ 1, 'SELECT o.n FROM o WHERE EXISTS (SELECT FROM ITEM i WHERE i.id = o.id)' ],
	[ 1, 'SELECT o.n FROM o WHERE o.id IN (SELECT id FROM ITEM WHERE length(value) = 4)' ],
	[ 1, 'SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM ITEM i WHERE i.id = o.id AND i.value > o.value)' ],
	[ undef, 'SELECT o.n FROM o WHERE o.id NOT IN (SELECT id FROM ITEM)' ],
	[ 1, 'SELECT o.n, i.value FROM o JOIN ITEM i ON i.id = o.big' ],
	[ 1, 'SELECT o.n, i.value FROM o JOIN ITEM i ON i.id = o.small' ],
	[ 1, 'SELECT o.n, i.value FROM o JOIN ITEM i ON i.id = o.id + 2 AND i.id = o.n' ],
	[ 1, 'SELECT o.n, i.value FROM o JOIN ITEM i ON i.id = ANY (o.ids)' ],
	[ 1, 'SELECT o.n, i.value FROM o LEFT JOIN ITEM i ON i.id = ANY (o.ids) AND i.id > o.n' ],
	[ 1, 'SELECT o.n FROM o WHERE EXISTS (SELECT FROM ITEM i WHERE i.id = ANY (o.ids))' ],
	[ 1, 'SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM ITEM i WHERE i.id = ANY (o.ids))' ],
	[ 1, 'SELECT o.n, i.value FROM o JOIN ITEM i ON i.id = o.n OR i.id = o.small' ],
	[ undef, 'SELECT o.n, i.value FROM o JOIN ITEM i ON i.id::text = o.value' ],
	[ undef, 'SELECT o.n, i.value FROM few o LEFT JOIN ITEM i ON i.id < o.id AND i.id < 10' ],
	[ 1, 'SELECT o.n, p.* FROM o JOIN PERSON p ON p.tenant = o.tenant AND p.id = o.n' ],
	[ 1, 'SELECT o.n, p.name FROM o LEFT JOIN PERSON p ON p.tenant = o.tenant AND p.id = o.big AND p.age > 30' ],
	[ 1, 'SELECT o.n, p.name FROM o LEFT JOIN PERSON p ON p.tenant = \'b\' AND p.id = o.n WHERE o.n < 900' ],
	[ 1, 'SELECT o.n, p.age FROM o JOIN PERSON p ON p.id = o.n WHERE p.tenant IN (\'a\', \'c\')' ],
	[ 1, 'SELECT o.n FROM o WHERE NOT EXISTS (SELECT FROM PERSON p WHERE p.tenant = o.tenant AND p.id = o.n AND p.name IS NULL)' ],
	[ undef, 'SELECT o.n, p.name FROM few o JOIN PERSON p ON p.id = o.n' ],
	[ 1, 'SELECT o.n, i.value, p.name FROM o JOIN ITEM i ON i.id = o.id LEFT JOIN PERSON p ON p.tenant = o.tenant AND p.id = i.id' ],
	[ 1, 'SELECT o.n, i.value, j.value FROM o LEFT JOIN ITEM i ON i.id = o.id LEFT JOIN ITEM j ON j.id = i.id + 2' ],
	[ 1, 'SELECT o.n, i.value, j.value FROM o LEFT JOIN (ITEM i JOIN one_row ON true) ON i.id = o.id LEFT JOIN ITEM j ON j.id = o.n' ],
	[ undef, 'SELECT o.n, i.value FROM ITEM i RIGHT JOIN o ON i.id = o.id' ],
	[ undef, 'SELECT o.n, i.value FROM few o FULL JOIN ITEM i ON i.id = o.id' ],
	[ 1, 'SELECT o.n, i.value FROM o JOIN ITEM i ON i.id = o.id ORDER BY o.n' ],
	[ 1, 'SELECT i.value, count(*), min(o.n) FROM o JOIN ITEM i ON i.id = o.small GROUP BY i.value' ],
	[ 1, 'SELECT d.id, i.value FROM (SELECT DISTINCT id FROM o) d LEFT JOIN ITEM i USING (id)' ],
	[ undef, 'SELECT f.n, s.* FROM few f, LATERAL (SELECT o.n AS m, i.value FROM o JOIN ITEM i ON i.id = o.id WHERE o.n < f.n * 10) s' ],
	[ undef, 'SELECT f.n, (SELECT string_agg(i.value, \',\' ORDER BY o.n) FROM o JOIN ITEM i ON i.id = o.id + f.n WHERE o.n < 50) FROM few f' ],
	[ undef, 'SELECT f.n, (SELECT count(i.value) FROM o LEFT JOIN ITEM i ON i.id = o.id AND i.id % f.n = 0 WHERE o.n < 50) FROM few f' ],
	[ undef, 'SELECT f.n, s.* FROM few f LEFT JOIN (SELECT o.n AS m, i.value FROM o JOIN ITEM i ON i.id = o.id WHERE o.n < 30) s ON s.m <> f.n' ],
	[ undef, 'SELECT o.n, s.label FROM o LEFT JOIN (SELECT i.id, coalesce(i.value, \'none\') AS label FROM ITEM i) s ON s.id = o.id' ],
	[ undef, 'SELECT f.n, g, i.value FROM few f, LATERAL generate_series(f.n, f.id) g LEFT JOIN ITEM i ON i.id = g' ],
	[ 1, 'SELECT o, o.tableoid = \'o\'::regclass, i.value FROM o LEFT JOIN ITEM i ON i.id = o.id' ],
	[ 1, 'SELECT o.n, i.value FROM o JOIN ITEM i ON i.id = o.id WHERE i.value IN (SELECT value FROM o)' ],
	[ undef, 'SELECT o.n, i.value FROM o LEFT JOIN ITEM i ON i.id = o.id AND i.value > (SELECT max(x.value) FROM o x WHERE x.n = o.n)' ],
	[ undef, 'SELECT o.n, i.value FROM o LEFT JOIN (SELECT * FROM ITEM WHERE id > 5 AND id < 3) i ON i.id = o.id' ],
	[ undef, 'SELECT o.n, i.value FROM (SELECT * FROM o WHERE n IS NULL AND n > 3) o LEFT JOIN ITEM i ON i.id = o.id' ],
	[ 0, 'SELECT i, o.n FROM o JOIN ITEM i ON i.id = o.id WHERE o.n < 20' ],
	[ undef, 'SELECT o.n, i.value FROM o JOIN ITEM i ON i.id = o.id WHERE now() < \'2020-01-01\'' ],
	[ undef, 'SELECT o.n, i.value FROM o LEFT JOIN ITEM i ON i.id = o.id AND now() < \'2020-01-01\'' ],
	[ undef, 'SELECT o.n FROM o LEFT JOIN ITEM i ON i.id = o.id AND false' ],
	[ 1, 'SELECT f.n, s.* FROM few f, LATERAL (SELECT d.id, i.value FROM
		(SELECT DISTINCT id FROM o WHERE o.n < f.n * 20) d LEFT JOIN ITEM i USING (id) OFFSET 0) s' ],
	[ 0, 'SELECT o.n, i.value FROM few o JOIN ITEM i ON i.id = o.id FOR UPDATE OF o' ],
	[ undef, 'WITH c AS MATERIALIZED (SELECT id FROM o WHERE n < 60) SELECT c.id, i.value FROM c LEFT JOIN ITEM i USING (id)' ],
	[ undef, 'SELECT v.id, i.value FROM (VALUES (1), (2), (NULL), (4), (4)) v (id) LEFT JOIN ITEM i USING (id)' ],
);
for my $query (@queries)
{
	my ($expected, $text) = @$query;
	my ($store, $local) = map { my $q = $text; $q =~ s/\bITEM\b/$_->[0]/g; $q =~ s/\bPERSON\b/$_->[1]/g; $q }
	  [ '(SELECT id, value FROM item)', 'person' ], [ 'item_copy', 'person_copy' ];
	$store = $text =~ s/\bITEM\b/item/gr =~ s/\bPERSON\b/person/gr;

	# the local copy has no version, so no * over it
	$store =~ s/SELECT \* FROM o JOIN item i/SELECT o.*, i.id, i.value FROM o JOIN item i/;
	$store =~ s/SELECT i, o\.n/SELECT (i).id, (i).value, i.*::text IS NULL, o.n/;
	$local =~ s/SELECT i, o\.n/SELECT (i).id, (i).value, i.*::text IS NULL, o.n/;
	batched(0);
	my $loop = rows_of($store);
	batched(1);
	my $plan = plan_of($store);
	is(rows_of($store), $loop, "as a nested loop: $text") or diag($plan);
	is($loop, rows_of($local), '... and as local tables');
	is(is_batched($plan) ? 1 : 0, $expected, '... ' . ($expected ? 'batched' : 'not batched')) or diag($plan)
	  if defined $expected;
}

# The order of the outer side is kept, so that no sort is needed.
$session->run('CREATE INDEX ON o (n); ANALYZE o; SET enable_seqscan = off; SET enable_sort = off');
$sql = 'SELECT o.n FROM o LEFT JOIN item i ON i.id = o.id ORDER BY o.n';
unlike(plan_of($sql), qr/Sort/, 'ordered by the outer side without a sort');
my @order = split(/\n/, $session->run($sql)->{out});
is_deeply(\@order, [ sort { $a <=> $b } @order ], '... and the order is right');
$session->run('RESET enable_sort');
$sql = 'SELECT o.n, i.value FROM one_row f JOIN o ON o.n = f.n * 2 LEFT JOIN item i ON i.id = o.id';
is(rows_of($sql), rows_of($sql =~ s/item/item_copy/r), 'an outer side that a third table gives values to')
  or diag(plan_of($sql));
$session->run('RESET enable_seqscan; DROP INDEX o_n_idx');

# ---- what it costs

sub cost_of
{
	my ($text) = @_;
	my $reads = sub { $single->info('stats')->{total_reads_processed} };
	my $before = $reads->();
	my $calls = $single->counted(sub { $session->run($text)->{sqlstate} eq '00000' or die $text });
	return ($calls, $reads->() - $before);
}

$session->run('SELECT FROM single WHERE id = 0');    # connected, the map is known
my ($calls, $reads) = cost_of('SELECT count(s.value) FROM generate_series(1, 3000) n JOIN single s ON s.id = n');
is_deeply($calls, { get => 3000 }, 'one GET a key');
cmp_ok($reads, '<', 100, "... in few round trips: the node read $reads times");
batched(0);
($calls, $reads) = cost_of('SELECT count(*) FROM generate_series(1, 300) n JOIN single s ON s.id = n AND s.id IS NOT NULL');
cmp_ok($reads, '>', 200, "a nested loop makes it read $reads times for 300") if ($calls->{get} // 0) == 300;
batched(1);
($calls) = cost_of('SELECT count(s.value) FROM generate_series(1, 800) n LEFT JOIN single s ON s.id = n % 5');
cmp_ok($calls->{get}, '<=', 25, "doubles are asked for once a group: $calls->{get} GETs for 800 rows");
($calls) = cost_of('SELECT count(s.value) FROM generate_series(1, 800) n LEFT JOIN single s ON s.id = nullif(n, n)');
is_deeply($calls, {}, 'NULLs are not asked for');
($calls) = cost_of('SELECT count(s.value) FROM generate_series(1, 800) n LEFT JOIN single s ON s.id = n + 4294967296');
is_deeply($calls, {}, 'nor what no key can have');
($calls) = cost_of('SELECT s.value FROM generate_series(1, 3000) n JOIN single s ON s.id = n LIMIT 1');
cmp_ok($calls->{get}, '<=', 10, "LIMIT 1 asks for $calls->{get} keys");
($calls) = cost_of('SELECT count(*) FROM generate_series(1, 500) n WHERE EXISTS (SELECT FROM single s WHERE s.id = n)');
is(sum0(map { $calls->{$_} // 0 } qw(get mget)), 0, 'no value is fetched where none is needed');

my $plan = $session->run('EXPLAIN (ANALYZE, FORMAT JSON) SELECT count(s.value) FROM generate_series(1, 3000) n JOIN single s ON s.id = n')->{out};
my ($requests) = $plan =~ /"Requests": (\d+)/;
my ($round_trips) = $plan =~ /"Round Trips": (\d+)/;
is($requests, 3000, 'EXPLAIN ANALYZE counts requests');
cmp_ok($round_trips, '<', 100, "... and round trips: $round_trips");

# The groups keep within work_mem, whatever the values' size.
$single->ask('SET', "item:$_", 'x' x 50_000) for 10_000 .. 10_199;
$session->run("SET work_mem = '1MB'");
($round_trips) = $session->run('EXPLAIN (ANALYZE, FORMAT JSON) SELECT sum(length(s.value)) FROM generate_series(10000, 10199) n JOIN single s ON s.id = n')->{out}
  =~ /"Round Trips": (\d+)/;
cmp_ok($round_trips, '>=', 10, "50 KB a value, 1 MB of work_mem: $round_trips round trips for 200 keys");
is($session->run('SELECT sum(length(s.value)) FROM generate_series(10000, 10199) n JOIN single s ON s.id = n')->{out},
	200 * 50_000, '... and all rows');
$session->run('RESET work_mem');
is($session->run('SELECT count(s.value) FROM generate_series(0, 2999) n LEFT JOIN small s ON s.id = n')->{out}, 1500,
	'a batch_size smaller than the first group');

# ---- plans are kept, copied, run again and left early

$session->run("SET plan_cache_mode = force_generic_plan; PREPARE p (int, text) AS SELECT count(*), min(i.value)
	FROM o JOIN item i ON i.id = o.id + \$1 WHERE i.value <> \$2");
is($session->run("EXECUTE p (0, 'v200')")->{out},
	$session->run("SELECT count(*), min(i.value) FROM o JOIN item_copy i ON i.id = o.id WHERE i.value <> 'v200'")->{out},
	'a generic plan');
is($session->run("EXECUTE p (1, '')")->{out},
	$session->run("SELECT count(*), min(i.value) FROM o JOIN item_copy i ON i.id = o.id + 1")->{out}, '... with other values');
$session->run('RESET plan_cache_mode');

$session->run('BEGIN; DECLARE c CURSOR FOR SELECT n, s.value FROM generate_series(0, 2999) n JOIN single s ON s.id = n');
is($session->run('FETCH 3 FROM c')->{out}, "0|v0\n2|v2\n4|v4", 'a cursor');
is($session->run('SELECT count(*) FROM generate_series(0, 2999) n JOIN single s ON s.id = n')->{out}, 1500, '... and another query meanwhile');
is($session->run('FETCH 2 FROM c')->{out}, "6|v6\n8|v8", '... goes on');
is($session->run('MOVE FORWARD ALL FROM c; COMMIT')->{sqlstate}, '00000', '... to its end');

$session->run('SET enable_material = off; SET join_collapse_limit = 1');
$sql = 'SELECT count(*), sum(length(i.value)) FROM few f LEFT JOIN (generate_series(1, 40) g JOIN item i ON i.id = g) ON g <> f.n';
like(plan_of($sql), qr/Nested Loop.*->  Seq Scan on few.*->  Custom Scan/s, 'on the inner side of a nested loop');
is($session->run($sql)->{out}, $session->run($sql =~ s/item/item_copy/r)->{out}, '... it is run again');
$session->run('RESET enable_material; RESET join_collapse_limit');

# ---- errors leave nothing behind

is($session->run('SELECT count(*) FROM generate_series(1, 3000) n JOIN single s ON s.id = 2 * (100 / (2000 - n))')->{sqlstate},
	'22012', 'an error of the outer side in the middle of a group');
is($session->run('SELECT s.value FROM generate_series(4, 4) n JOIN single s ON s.id = n')->{out}, 'v4',
	'... and the session gets its own answers');
is($session->run('SELECT count(*) FROM generate_series(0, 2999) n JOIN single s ON s.id = n AND 1 / (1000 - n) < 2')->{sqlstate},
	'22012', 'an error while matching');
$single->ask('SET', 'item:7', 'bad');
$pg->table('numbers', 'id int, value int', key => 'item:<id>', server => 'one');
my $result = $session->run('SELECT * FROM generate_series(7, 7) n JOIN numbers s ON s.id = n');
is($result->{sqlstate}, '22P02', 'a value that its column cannot hold');
$single->ask('DEL', 'item:7');
$single->ask('HSET', 'item:9', 'f', 'v');
is($session->run('SELECT n, value FROM generate_series(8, 10) n LEFT JOIN single s ON s.id = n')->{out}, "8|v8\n9|\n10|v10",
	'a key of another kind is no row');
$single->ask('DEL', 'item:9');

$single->pause;
$result = $session->run("SET statement_timeout = '300ms'; SELECT count(*) FROM generate_series(0, 2999) n JOIN single s ON s.id = n");
$single->resume;
is($result->{sqlstate}, '57014', 'statement_timeout while a node is paused');
cmp_ok($result->{seconds}, '<', 1, '... at once');
is($session->run('RESET statement_timeout; SELECT s.value FROM generate_series(6, 6) n JOIN single s ON s.id = n')->{out}, 'v6',
	'... and the session gets its own answers');

# ---- writes

$pg->table('copy', 'id int, value text', key => 'copy:<id>', server => 'one');
$session->run('INSERT INTO copy SELECT n, s.value FROM generate_series(0, 99) n JOIN single s ON s.id = n');
is($session->run('SELECT count(*), sum(id) FROM copy')->{out}, '50|2450', 'INSERT ... SELECT from a join');
$session->run("INSERT INTO copy SELECT g + 1, coalesce(c.value, 'none') FROM generate_series(0, 2000) g LEFT JOIN copy c ON c.id = g WHERE g % 2 = 0");
is($session->run("SELECT count(*), count(nullif(value, 'none')) FROM copy")->{out}, '1051|100',
	'INSERT ... SELECT from a join with the table itself');
$session->run('INSERT INTO copy SELECT g + 20000, c.value FROM generate_series(0, 3999) g
	JOIN copy c ON c.id = CASE WHEN g < 2000 THEN 0 ELSE g + 18000 END');
is($session->run('SELECT count(*), max(id) FROM copy WHERE id >= 10000')->{out}, '2000|21999',
	'a statement does not see what it inserts');
is($session->run('UPDATE copy c SET value = f.n FROM few f WHERE c.id = f.id')->{sqlstate}, '00000', 'UPDATE ... FROM');
is($session->run('SELECT string_agg(value, \',\' ORDER BY id) FROM copy WHERE id IN (2, 4, 6, 8, 10)')->{out}, '1,2,3,4,5',
	'... writes each row');
is($session->run('WITH d AS (DELETE FROM copy c USING few f WHERE c.id = f.id RETURNING c.id) SELECT count(*) FROM d')->{out}, 5,
	'DELETE ... USING');
is($session->run('UPDATE few f SET n = 0 FROM copy c WHERE c.id = f.id + 1 RETURNING f.id')->{sqlstate}, '00000',
	'UPDATE of a local table');
ok(!is_batched(plan_of($_)), "not batched: $_")
  for 'UPDATE few f SET n = 0 FROM copy c WHERE c.id = f.id', 'DELETE FROM copy c USING few f WHERE c.id = f.id';

# ---- who may read

$pg->sql('CREATE ROLE ann LOGIN; GRANT SELECT ON o TO ann; CREATE VIEW seen AS SELECT id, value FROM item; GRANT SELECT ON seen TO ann');
is($pg->try('SELECT count(*) FROM o JOIN item USING (id)', user => 'ann')->{sqlstate}, '42501', 'a table that is not granted');
is($pg->try('SELECT count(*) FROM o JOIN seen USING (id)', user => 'ann')->{out},
	$pg->sql('SELECT count(*) FROM o JOIN item_copy USING (id)'), "a view reads as its owner");

# ---- other shapes around it

$pg->sql(q{
	CREATE TABLE parted (id int, value text) PARTITION BY RANGE (id);
	CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (0);
	CREATE FOREIGN TABLE parted_high PARTITION OF parted FOR VALUES FROM (0) TO (MAXVALUE) SERVER kv OPTIONS (key 'item:<id>');
	INSERT INTO parted_low VALUES (-1, 'minus one');
});
is($session->run('SELECT count(*), count(p.id) FROM o LEFT JOIN parted p ON p.id = o.id')->{out},
	$session->run("SELECT count(*), count(p.id) FROM o LEFT JOIN (SELECT id FROM item_copy UNION ALL SELECT -1) p ON p.id = o.id")->{out},
	'a partition');
$session->run('SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
	SET min_parallel_table_scan_size = 0');
is($session->run('SELECT count(*), sum(length(i.value)) FROM o JOIN item i ON i.id = o.id')->{out},
	$session->run('SELECT count(*), sum(length(i.value)) FROM o JOIN item_copy i ON i.id = o.id')->{out},
	'with parallel workers below');
$session->run('RESET max_parallel_workers_per_gather');

# ---- while slots move

my @slots = map { $cluster->slot("item:$_") } 2, 4, 6, 8;
my $expected = $session->run('SELECT count(*), sum(length(i.value)) FROM o JOIN item_copy i ON i.id = o.id')->{out};
my $mover = $cluster->mover(\@slots);
$mover->wait_for(4);
my @answers = map { $session->run('SELECT count(*), sum(length(i.value)) FROM o JOIN item i ON i.id = o.id')->{out} } 1 .. 30;
is(scalar(grep { $_ eq $expected } @answers), 30, 'right in every one of 30 runs while slots move to and fro')
  or diag(join("\n", grep { $_ ne $expected } @answers));
cmp_ok($mover->stop, '>=', 8, '... and they did move');

done_testing();
