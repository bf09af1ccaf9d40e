# What the wrapper costs above the bare engine: each piece of work is done in turn by the yardstick and in SQL, several times, and
# the ratio of the medians is printed.  Started by bench/run.
#
# The yardstick is bench/yardstick.c, a native client that does nothing else; for point lookups it is a statement that
# touches no table, or one that finds its row in a local table, plus one GET whose answer is awaited.  Statements are timed by psql (\timing) in one session
# a store, lookups by pgbench.  So ratios contain all that a user waits for, and no start of a program or connection.
use strict;
use warnings;

# PostgreSQL::Test::Utils takes over the output when it is loaded.
BEGIN
{
	open(our $report, '>&', \*STDOUT) or die "could not duplicate the output: $!";
	open(our $complaints, '>&', \*STDERR) or die "could not duplicate the output: $!";
}

use Getopt::Long;
use IPC::Run;
use Zaris::Cluster;
use Zaris::Pg;
use Zaris::Process;
use Zaris::Single;

our ($report, $complaints);
local $SIG{__DIE__} = sub { print $complaints $_[0] unless $^S };
my %option = (repeat => 7, keys => 100_000, rows => 10_000, lookups => 2000, only => '');
GetOptions(\%option, 'repeat=i', 'keys=i', 'rows=i', 'lookups=i', 'only=s') or die "see bench/run\n";
my ($keys, $rows) = @option{qw(keys rows)};
die "--keys must not be smaller than --rows\n" if $keys < $rows;

use constant { SIZE => 100, LONG_US => 5000 };

# ---- the two sides

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return ($sorted[ $#sorted / 2 ] + $sorted[ @sorted / 2 ]) / 2;
}

sub output_of
{
	my (@command) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err) or die "@command:\n$out$err";
	return $out;
}

# Milliseconds.
sub yardstick
{
	my ($store, $verb, $prefix, $count) = @_;
	my $out = output_of('bench/build/yardstick', "127.0.0.1:$store->{port}", $verb, $prefix, 1, $count, SIZE);
	return (split ' ', $out)[0];
}

sub statement
{
	my ($store, $sql) = @_;
	my $result = $store->{session}->run("$sql;");
	die "$sql\n$result->{stderr}" if $result->{sqlstate} ne '00000';
	my ($ms) = $result->{out} =~ /^Time: ([\d.]+) ms/m or die "no time from psql: $result->{out}";
	return $ms;
}

# The average of many, in milliseconds. %option: mode (of pgbench), generic
sub lookup
{
	my ($pg, $sql, %how) = @_;
	my $script = Zaris::Process::short_directory() . '/lookup.sql';
	PostgreSQL::Test::Utils::append_to_file($script, "\\set id random(1, $keys)\n$sql;\n");
	local $ENV{PGOPTIONS} = '-c plan_cache_mode=' . ($how{generic} ? 'force_generic_plan' : 'auto');
	my $out =
	  output_of('pgbench', '-n', '-M', $how{mode}, '-f', $script, '-t', $option{lookups}, $pg->connection);
	my ($ms) = $out =~ /latency average = ([\d.]+) ms/ or die "no latency from pgbench: $out";
	return $ms;
}

# ---- the work: name, aim (as a ratio), yardstick and here, each a sub that returns milliseconds

my $pg = Zaris::Pg->new(conf => "jit = off\nautovacuum = off\n");
my $local_lookup = 'SELECT value FROM local WHERE id = :id';
my $all_ids = 'ARRAY(SELECT id FROM source)';

sub by_lookup
{
	my ($name, $aim, $statement, %how) = @_;
	return {
		name => $name,
		aim => $aim,
		yardstick => sub {
			lookup($pg, $statement, %how) + yardstick($_[0], 'get1', 'b:', $option{lookups}) / $option{lookups};
		},
		here => sub { lookup($pg, "SELECT value FROM $_[0]{name}.b WHERE id = :id", %how) },
	};
}

sub by_statement
{
	my ($name, $aim, $verb, $prefix, $count, $sql) = @_;
	return {
		name => $name,
		aim => $aim,
		yardstick => sub { yardstick($_[0], $verb, $prefix, $count) },
		here => sub { statement($_[0], $sql =~ s/\bKV\b/$_[0]{name}/gr) },
	};
}

# Writes come before the store is filled: a statement that reads its rows first must not walk keys of others. Each leaves what
# the next one needs, on both sides.
my @writes = (
	by_statement("INSERT $rows rows (SET NX)", 3, 'setnx', 'y:', $rows, 'INSERT INTO KV.w SELECT id, value FROM source'),
	by_statement("UPDATE $rows rows by key (SET XX)",
		undef, 'setxx', 'y:', $rows, "UPDATE KV.w SET value = repeat('y', 100) WHERE id = ANY ($all_ids)"),
	by_statement("UPDATE $rows rows, each read and compared (SET XX)",
		undef, 'setxx', 'y:', $rows, 'UPDATE KV.w SET value = upper(value)'),
	by_statement("the same (EVALSHA that compares)",
		undef, 'cas', 'y:', $rows, 'UPDATE KV.w SET value = lower(value)'),
	by_statement("DELETE $rows rows, each read and compared (DEL)", undef, 'del', 'y:', $rows, 'DELETE FROM KV.w'));

my @reads = (
	by_lookup('point lookup, literal (SELECT 1 + GET)', 1.15, 'SELECT :id', mode => 'simple'),
	by_lookup('point lookup, $1 in a generic plan (SELECT 1 + GET)', 1.15, 'SELECT :id', mode => 'prepared', generic => 1),
	by_lookup('point lookup, literal (local index + GET)', undef, $local_lookup, mode => 'simple'),
	by_lookup('point lookup, $1 in a generic plan (local index + GET)',
		undef, $local_lookup, mode => 'prepared', generic => 1),
	by_statement("count(*) of $keys keys (SCAN)", 1.5, 'scan', 'b:', $keys, 'SELECT count(*) FROM KV.b'),
	by_statement("sum(length(value)) of $keys keys (SCAN + GET)",
		1.5, 'sum', 'b:', $keys, 'SELECT sum(length(value)) FROM KV.b'),
	by_statement("join of $rows local rows by key (GET)",
		2, 'get', 'b:', $rows, 'SELECT count(b.value) FROM source s JOIN KV.b b ON b.id = s.id'));

@reads = grep { $_->{name} =~ /$option{only}/ } @reads;
@writes = () unless grep { $_->{name} =~ /$option{only}/ } @writes;    # one lives on what the others leave

sub measure
{
	my ($store, $work) = @_;
	for my $round (1 .. $option{repeat})
	{
		for my $one (@$work)
		{
			push @{ $one->{times}{ $store->{name} }{yardstick} }, $one->{yardstick}->($store);
			push @{ $one->{times}{ $store->{name} }{here} }, $one->{here}->($store);
		}
	}
	return;
}

# ---- the stage

sub prepare
{
	my ($name, $servers) = @_;
	my %store = (name => $name, nodes => $servers->{nodes} // [$servers]);
	$store{port} = $store{nodes}[0]->port;
	$_->ask('CONFIG', 'SET', 'slowlog-log-slower-than', LONG_US, 'slowlog-max-len', 100_000) for @{ $store{nodes} };
	$pg->sql("CREATE SCHEMA $name");
	$pg->server($name, url => $servers->url);
	$pg->table("$name.w", 'id int, value text, version bigint', key => 'w:<id>');
	$pg->table("$name.b", 'id int, value text, version bigint', key => 'b:<id>');
	$store{session} = $pg->session;
	statement_warm(\%store);
	return \%store;
}

# Catalogs are read, connections stand, scripts are loaded.
sub statement_warm
{
	my ($store) = @_;
	$store->{session}->run('\timing on');
	for my $one (@writes, @reads)
	{
		$one->{here}->($store) unless $one->{name} =~ /^point lookup/;
	}
	return;
}

sub check
{
	my ($store) = @_;
	my $found = $pg->sql(
		"SELECT count(*), sum(length(value)) = sum(@{[SIZE]}), (SELECT count(*) FROM $store->{name}.w) FROM $store->{name}.b");
	die "the store $store->{name} does not hold what was measured: $found" if $found ne "$keys|t|0";
	return slow_commands($store);
}

# What blocked a node: command and number, those of the yardsticks too.
sub slow_commands
{
	my ($store) = @_;
	my %slow;
	$slow{ $_->[3][0] }++ for map { @{ $_->ask('SLOWLOG', 'GET', -1) } } @{ $store->{nodes} };
	return join(', ', map { "$slow{$_} $_" } sort keys %slow) || 'none';
}

# ---- the table

sub cell
{
	my ($times) = @_;
	my ($yardstick, $here) = map { median(@{ $times->{$_} }) } qw(yardstick here);
	return sprintf('**%.2f** (%s / %s ms)', $here / $yardstick, map { sprintf('%.3g', $_) } $here, $yardstick);
}

sub print_table
{
	my (@stores) = @_;
	print $report "| work (yardstick) | aim | ", join(' | ', map { $_->{title} } @stores), " |\n",
	  "|---|---|", '---|' x @stores, "\n";
	for my $one (@reads, @writes)
	{
		print $report "| $one->{name} | ", defined $one->{aim} ? "≤ $one->{aim}" : '', ' | ',
		  join(' | ', map { cell($one->{times}{ $_->{name} }) } @stores), " |\n";
	}
	return;
}

$pg->sql("CREATE TABLE source AS SELECT i AS id, rpad(i || ':', @{[SIZE]}, 'x') AS value FROM generate_series(1, $rows) i");
$pg->sql("CREATE TABLE local (id int PRIMARY KEY, value text);
	INSERT INTO local SELECT i, rpad(i || ':', @{[SIZE]}, 'x') FROM generate_series(1, $keys) i");
$pg->sql("VACUUM ANALYZE $_") for 'source', 'local';
my @stores;
for my $kind (
	[ 'single', 'one node', sub { Zaris::Single->new } ],
	[ 'cluster', 'three shards', sub { Zaris::Cluster->new(replicas => 0) } ])
{
	my ($name, $title, $start) = @$kind;
	my $servers = $start->();
	my $store = prepare($name, $servers);
	$store->{title} = $title;
	measure($store, \@writes);
	yardstick($store, 'load', 'b:', $keys);
	measure($store, \@reads);
	$store->{slow} = check($store);
	push @stores, $store;
	$_->kill9 for @{ $store->{nodes} };
}

chomp(my $cpus = output_of('nproc'));
my ($version) = output_of('postgres', '--version') =~ /(\d\S*)/;
my ($engine) = output_of(Zaris::Node::server(), '--version') =~ /^(.*?v=\S+)/;
print $report "PostgreSQL $version, $engine, $cpus CPUs, loopback; values of @{[SIZE]} bytes; medians of $option{repeat} ",
  "repetitions, as here / yardstick.\n\n";
print_table(@stores);
print $report "\nCommands that took a node longer than @{[LONG_US / 1000]} ms: ",
  join('; ', map { "$_->{title}: $_->{slow}" } @stores), ".\n";
