# What is pushed down never changes the answer (I12): random queries give the same on foreign tables as on local copies of
# them.  ZARIS_TEST_SEED and ZARIS_TEST_QUERIES choose others, or more.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use Zaris::Cluster;
use Zaris::Pg;

my $seed = $ENV{ZARIS_TEST_SEED} // 20240229;
my $queries = $ENV{ZARIS_TEST_QUERIES} // 600;
srand($seed);

my $cluster = Zaris::Cluster->launch(replicas => 0);
my $pg = Zaris::Pg->new;
$cluster->wait_until_up;
$pg->server('kv', url => $cluster->url);

# ---- the data: a little of everything, with neighbours that are no rows

my @words = ('a', 'a:b', 'b', 'b:c', 'x%y', 'x_y', 'x\\y', '*?[]', 'pre-1', 'pre-', '', 'a:b:c', "\x{c3}\x{a9}", 'pre');
$cluster->load({ map { ("item:$_" => "value $_") } 1 .. 300 });
$cluster->load({ map { ("item:$_" => 'none') } '007', '-0', '99999999999', 'x', '' });
$cluster->command('PEXPIRE', "item:$_", 10_000_000) for 1 .. 20;
$cluster->command('HSET', 'item:301', 'a', 1);
$cluster->load({ map { ("word:$_" => "v $_") } @words, "\xff" });
$cluster->load({ 'flag:t' => 'yes', 'flag:f' => 'no', 'flag:true' => 'none' });
$cluster->load({ map { ("day:$_" => $_) } '2024-02-29', '2023-02-29', '0044-03-15 BC', 'infinity', '2024-2-9' });
$cluster->load({ map { ("mood:$_" => $_) } 'sad', 'happy', 'angry' });
for my $doc (1 .. 3)
{
	$cluster->command('HSET', "line:$doc:$_", 'total', $doc * $_, ($_ % 3 ? () : ('note', "n$_"))) for 1 .. 10;
}

my %tables = (
	item => [ 'id int, v text, version bigint, expires_at timestamptz', key => 'item:<id>' ],
	line => [ 'doc int, n bigint, total numeric, note text, version bigint', key => 'line:<doc>:<n>', layout => 'hash' ],
	word => [ 'k text, v text', key => 'word:<k>' ],
	pair => [ 'a text, b varchar, v text', key => 'word:<a>:<b>' ],
	flag => [ 'b boolean, v text', key => 'flag:<b>' ],
	day => [ 'd date, v text', key => 'day:<d>' ],
	mood => [ 'm feeling, v text', key => 'mood:<m>' ],
	few => [ 'id small, v text', key => 'item:<id>' ]);
$pg->sql("CREATE SCHEMA copy; CREATE TYPE feeling AS ENUM ('sad', 'happy'); CREATE DOMAIN small AS int CHECK (VALUE < 10)");
for my $name (sort keys %tables)
{
	$pg->table($name, @{ $tables{$name} });
	$pg->sql("CREATE TABLE copy.$name AS SELECT * FROM $name");
}
is($pg->sql('SELECT count(*) FROM copy.item'), 300, 'the copies are whole');
is($pg->sql('SELECT count(*) FROM copy.line'), 30);
is($pg->sql('SELECT count(*) FROM copy.word'), 14);
is($pg->sql('SELECT count(*) FROM copy.pair'), 3);
$pg->sql('CREATE TABLE other AS SELECT x, (x % 10 + 1)::bigint AS y FROM generate_series(1, 20) x; ANALYZE other');

# ---- random conditions

sub pick { return $_[ rand @_ ] }
sub chance { return rand() < $_[0] }
sub quoted { return "'" . $_[0] =~ s/'/''/gr . "'" }
sub integer { return pick(1, 2, 3, 5, 7, 9, 10, 11, 300, 301, -1, 0, 99999999999, 2147483648) }

sub integer_expression
{
	return pick(
		integer(), integer(), integer(), integer(), 'NULL::int', '(' . integer() . '::bigint + 1)', '3::smallint',
		'(SELECT max(x) / 3 FROM other)', '(CURRENT_DATE - CURRENT_DATE + 4)');
}

sub array
{
	return pick(
		"'{" . join(',', map { pick('NULL', 1, 2, 2, 7, 9, 4000000000, 15) } 0 .. rand 5) . "}'::bigint[]",
		'ARRAY[' . join(',', map { integer_expression() } 0 .. rand 3) . ']', "'{}'::int[]", 'NULL::int[]');
}

sub on_integer
{
	my ($column) = @_;
	return pick(
		"$column = " . integer_expression(), "$column = " . integer_expression(), integer_expression() . " = $column",
		"$column = ANY (" . array() . ')', "$column IN (" . join(', ', integer(), integer(), integer()) . ')',
		"($column = " . integer() . " OR $column = ANY (" . array() . ") OR $column = " . integer_expression() . ')',
		"$column <> " . integer(), "$column < " . integer(), "$column <> ALL (" . array() . ')', "NOT ($column = " . integer() . ')',
		"$column BETWEEN " . integer() . ' AND ' . integer(), "$column IS NOT DISTINCT FROM " . integer());
}

sub pattern
{
	my $word = pick(@words);
	return quoted(
		pick($word, "$word%", "%$word", "${word}_", 'p_e%', '\\a%', $word =~ s/[\\%_]/\\$&/gr, ($word =~ s/[\\%_]/\\$&/gr) . '%'));
}

sub on_text
{
	my ($column) = @_;
	my $word = sub { return quoted(pick(@words)) };
	return pick(
		"$column = " . $word->(), "$column = " . $word->(), "$column = ANY (ARRAY[" . join(', ', $word->(), 'NULL', $word->()) . '])',
		"($column = " . $word->() . " OR $column = " . $word->() . ')', "$column LIKE " . pattern(), "$column LIKE " . pattern(),
		"$column NOT LIKE " . pattern(), "$column ^@ " . $word->(), "starts_with($column, " . $word->() . ')',
		"$column = " . $word->() . '::bpchar', "$column\::bpchar = " . $word->(), "$column > " . $word->(),
		"$column ILIKE " . pattern(), "$column = " . $word->() . '::varchar', "length($column) = 1");
}

my %conditions = (
	item => [ sub { on_integer('id') }, sub { on_integer('id') }, sub { pick('length(v) > 8', 'version > 0', 'expires_at IS NULL') } ],
	line => [
		sub { on_integer('doc') }, sub { on_integer('n') }, sub { on_integer('doc') }, sub { on_integer('n') },
		sub { pick('note IS NULL', 'total > 10', 'n = doc') },
		sub { '(doc, n) IN ((' . join('), (', map { integer_expression() . ', ' . integer_expression() } 0 .. rand 4) . '))' },
		sub {
			join(' OR ',
				map { '(' . join(' AND ', "doc = " . integer(), "n = " . integer(), chance(0.3) ? on_integer('n') : 'true') . ')' } 0 .. rand 4);
		} ],
	word => [ sub { on_text('k') }, sub { on_text('k') }, sub { "v <> 'v a'" } ],
	pair => [
		sub { on_text('a') }, sub { on_text('b') },
		sub {
			my $word = sub { return quoted(pick(@words)) };
			return "(a, b) IN ((" . join('), (', map { $word->() . ', ' . $word->() } 0 .. rand 4) . '))';
		} ],
	flag => [
		sub {
			pick('b', 'NOT b', 'b IS TRUE', 'b IS FALSE', 'b IS NOT TRUE', 'b = true', 'b = NULL', 'b <> true', 'b OR NOT b',
				"b = ANY ('{t,NULL}')", 'b IS NOT NULL', 'b IS UNKNOWN');
		} ],
	day => [
		sub {
			'd ' . pick("= '2024-02-29'", "= 'infinity'", "> '2024-01-01'", "= '2024-02-29'::timestamp", "= '0044-03-15 BC'",
				"= ANY ('{2024-02-29,-infinity,infinity}')");
		} ],
	mood => [ sub { 'm ' . pick("= 'sad'", "= 'happy'", "<> 'happy'", "IN ('sad', 'happy')", "> 'sad'") } ],
	few => [ sub { on_integer('id') } ]);

sub condition
{
	my ($table) = @_;
	my $one = sub { return pick(@{ $conditions{$table} })->() };
	my $all = $one->();
	for (1 .. rand 3)
	{
		$all = "NOT ($all)" if chance(0.1);
		$all = "($all) " . pick('AND', 'AND', 'OR') . ' (' . $one->() . ')';
	}
	return $all;
}

sub query
{
	my $table = pick(keys %tables, 'item', 'line', 'line', 'pair', 'pair', 'word');
	if (chance(0.7))
	{
		return "SELECT count(*) FROM $table WHERE " . condition($table) if chance(0.2);
		return "SELECT string_agg(t::text, '|' ORDER BY t::text COLLATE \"C\") FROM $table t WHERE " . condition($table);
	}
	($table, my $on) = @{
		pick(
			[ 'item', 't.id = o.x' ], [ 'item', 't.id = o.y' ], [ 'item', 't.id = o.x + o.y' ], [ 'item', '(t.id = o.x OR t.id = o.y)' ],
			[ 'item', "t.id = o.x AND t.v = 'value ' || o.y" ], [ 'line', 't.doc = o.x AND t.n = o.y' ], [ 'line', 't.n = o.x' ],
			[ 'line', 't.doc = o.y AND t.n = 3' ], [ 'line', 't.doc = ANY (ARRAY[o.x, 2]) AND t.n = o.y' ], [ 'few', 't.id = o.x' ])
	};
	my $where = condition($table);
	return pick(
		"SELECT string_agg(z::text, '|' ORDER BY z::text COLLATE \"C\") FROM (SELECT o.x AS ox, t.* FROM other o "
		  . pick('JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN')
		  . " $table t ON $on WHERE $where) z",
		"SELECT count(*), sum(o.x) FROM other o WHERE " . pick('EXISTS', 'NOT EXISTS') . " (SELECT FROM $table t WHERE $on AND ($where))",
		"SELECT string_agg((SELECT string_agg(t::text, ',' ORDER BY t::text) FROM $table t WHERE $on AND ($where)), '|' ORDER BY o.x)
			FROM other o",
		"SELECT string_agg(z::text, '|' ORDER BY z::text COLLATE \"C\") FROM other o, LATERAL
			(SELECT o.x AS ox, t.* FROM $table t WHERE $on AND ($where) OFFSET 0) z");
}

# ---- the same in both

my @settings = (
	'RESET ALL',
	'SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET zaris.batched_join = off',
	'SET enable_nestloop = off; SET enable_memoize = off',
	'RESET ALL; SET enable_hashjoin = off; SET enable_mergejoin = off');
my $session = $pg->session;
my $differences = 0;
for my $i (1 .. $queries)
{
	$session->run($settings[ $i * @settings / $queries ]) if $settings[ $i * @settings / $queries ] && $i % 20 == 1;
	my $query = query();
	my $foreign = $session->run("SET search_path = public; $query");
	my $local = $session->run("SET search_path = copy, public; $query");
	next if $foreign->{out} eq $local->{out} && $foreign->{sqlstate} eq $local->{sqlstate};
	next if ++$differences > 10;
	diag "foreign: $foreign->{out}$foreign->{stderr}\nlocal: $local->{out}$local->{stderr}\nseed $seed: $query";
}
is($differences, 0, "$queries random queries have the same answers");

done_testing();
