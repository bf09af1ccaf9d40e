#!/usr/bin/env perl
# The show of script/demo, which sets up, builds and calls this: perl -I t/lib script/demo.pl [--keep].
# The cluster is the tests' own (t/lib/Zaris/Cluster.pm).
use strict;
use warnings;

use POSIX ();
use Time::HiRes qw(sleep time);
use Zaris::Cluster;
use Zaris::Process;
use Zaris::Resp;

use constant CUSTOMERS => 300;

$| = 1;
my $keep = @ARGV && $ARGV[0] eq '--keep';
my $directory = Zaris::Process::short_directory();
my $dsn = "host=$directory port=5432 user=postgres dbname=postgres";

sub say_that { print "\n", map({ "-- $_\n" } @_) }

# ---- PostgreSQL: no TCP port, a socket in a directory of our own

sub run
{
	my (@command) = @_;
	open(my $pipe, '-|', "@command 2>&1") or die "could not run $command[0]: $!\n";
	my $output = do { local $/; <$pipe> };
	close($pipe) or die "$command[0] failed:\n$output";
	return;
}

sub start_postgres
{
	run("initdb -N -A trust -U postgres --encoding=UTF8 --locale=C -D $directory/data");
	run("pg_ctl -w -D $directory/data -l $directory/log -o \"-k $directory -c listen_addresses= -c fsync=off\" start");
	return;
}

END
{
	my $status = $?;
	system("pg_ctl -D $directory/data -m fast -w stop >/dev/null 2>&1") if $directory && -e "$directory/data/postmaster.pid";
	$? = $status;
}

# ---- SQL, shown as it is typed

sub psql { return ('psql', '-Xq', '-P', 'pager=off', '-v', 'VERBOSITY=verbose', '-d', $dsn) }

# Everything that psql says, in its order; but where in the source an error was raised is of no interest here.
sub answer
{
	my ($sql, @options) = @_;
	my $pid = open(my $pipe, '-|') // die "could not fork: $!\n";
	if ($pid == 0)
	{
		open(STDERR, '>&', \*STDOUT);
		exec(psql(), @options, '-c', $sql) or POSIX::_exit(127);
	}
	my $answer = do { local $/; <$pipe> } // '';
	close($pipe);
	return $answer =~ s/^LOCATION:.*\n//mgr =~ s/\s+\z//r;
}

sub show
{
	my ($sql) = @_;
	$sql =~ s/^\t+//mg;
	$sql =~ s/;?\s*\z/;/;
	print "\n", map({ "    $_\n" } split(/\n/, $sql));
	my $answer = answer($sql);
	print "$answer\n" if $answer ne '';
	return;
}

sub value
{
	my ($sql) = @_;
	return answer($sql, '-At');
}

# ---- the loop: a session that reads and writes all shards without a pause, and counts

my $loop_sql = <<'SQL';
	SELECT count(*) FROM customer WHERE id = ANY (ARRAY[$ids]);
	UPDATE customer SET visits = visits + 1 WHERE id = $id;
SQL

sub start_loop
{
	my ($report) = @_;
	return Zaris::Process::child(
		sub {
			my ($rounds, $longest, $stop) = (0, 0, 0);
			local $SIG{TERM} = sub { $stop = 1 };
			open(my $errors_of_psql, '>', "$directory/loop-errors");
			open(STDERR, '>&', $errors_of_psql);
			pipe(my $from, my $to_us);
			my $psql = open(my $to, '|-') // die "could not fork: $!\n";
			if ($psql == 0)
			{
				open(STDOUT, '>&', $to_us);
				exec(psql(), '-At') or POSIX::_exit(127);
			}
			$to->autoflush(1);
			until ($stop)
			{
				my $start = time();
				my $id = 1 + int(rand(CUSTOMERS));
				my $ids = join(', ', map { 1 + ($id + $_ * 7) % CUSTOMERS } 1 .. 20);
				print $to $loop_sql =~ s/\$ids/$ids/r =~ s/\$id\b/$id/r, "\\echo done :ERROR\n";
				while (my $line = <$from> // last)
				{
					last if $line =~ /^done/;
				}
				my $took = time() - $start;
				$longest = $took if $took > $longest;
				$rounds++;
				open(my $file, '>', "$report.new");
				printf $file "%d %.2f\n", $rounds, $longest;
				close($file);
				rename("$report.new", $report);
			}
		});
}

sub slurp
{
	my ($path) = @_;
	open(my $file, '<', $path) or return '';
	local $/;
	return <$file> // '';
}

sub rounds { return (split(/ /, slurp($_[0])))[0] // 0 }
sub loop_errors { return slurp("$directory/loop-errors") =~ /^ERROR: +(\w{5})/mg }

# ---- the show

my $start = time();
my $cluster = Zaris::Cluster->launch;
start_postgres();
$cluster->wait_until_up;
printf "PostgreSQL %s and a cluster of three primaries with a replica each are up (%s).\n",
  value('SHOW server_version'), $cluster->url;

say_that('An application keeps its data in the cluster, say by these commands:');
print "\n    HSET customer:1 name 'Ada Lovelace' email ada\@example.com visits 1\n    ... customer:", CUSTOMERS,
  "\n    SET  cart:1 '{\"items\": [1, 1]}' EX 86400\n    ...\n";
for my $id (1 .. CUSTOMERS)
{
	my $name = $id == 1 ? 'Ada Lovelace' : $id == 2 ? 'Alan Turing' : $id == 3 ? 'Grace Hopper' : "Customer $id";
	my $email = lc($name =~ s/ .*//r) . ($id > 3 ? $id : '') . '@example.com';
	$cluster->command('HSET', "customer:$id", 'name', $name, 'email', $email, 'visits', 1);
	$cluster->command('SET', "cart:$id", "{\"items\": [$id, " . $id % 7 . ']}', 'EX', 86400) if $id % 10 < 4;
}

say_that('PostgreSQL sees it as tables. Any node will do in the url: the map comes from the cluster.');
show('CREATE EXTENSION zaris_fdw');
show("CREATE SERVER kv FOREIGN DATA WRAPPER zaris_fdw\n  OPTIONS (url '" . $cluster->url . "', max_attempts '20')");
show(<<'SQL');
	CREATE FOREIGN TABLE customer (id int, name text, email text, visits int, version bigint)
	  SERVER kv OPTIONS (key 'customer:<id>', layout 'hash');
SQL
show(<<'SQL');
	CREATE FOREIGN TABLE cart (id int, content jsonb, version bigint, expires_at timestamptz)
	  SERVER kv OPTIONS (key 'cart:<id>');
SQL
show('SELECT * FROM customer WHERE id IN (1, 2, 3)');
show("SELECT count(*) AS carts, min(expires_at) > now() AS will_expire FROM cart");

say_that('A key in WHERE is one lookup at its owner, in joins as well; nothing is scanned.');
show('EXPLAIN (VERBOSE, COSTS OFF) SELECT name FROM customer WHERE id = 2');
show("CREATE TABLE orders AS SELECT n AS order_id, n % 3 + 1 AS customer_id, n * 9.90 AS amount\n"
	  . '  FROM generate_series(1, 12) n; ANALYZE orders');
show(<<'SQL');
	SELECT c.name, count(*) AS orders, sum(o.amount), t.content->'items' AS cart
	  FROM orders o JOIN customer c ON c.id = o.customer_id LEFT JOIN cart t ON t.id = c.id
	  GROUP BY 1, 4 ORDER BY 1;
SQL

say_that('A write carries a condition: this one applies only to the version that was read.');
my $version = value('SELECT version FROM cart WHERE id = 1');
show("UPDATE cart SET content = '{\"items\": []}' WHERE id = 1 AND version = $version\n  RETURNING id, content, version, expires_at > now() AS still_expires");
say_that('The same again: nobody has that version any more, so no row is changed.');
show("UPDATE cart SET content = '{\"items\": [9]}' WHERE id = 1 AND version = $version\n  RETURNING id, content");

say_that('Two writers at once. The first reads its record and thinks for a second ...');
my $slow = 'UPDATE customer SET visits = visits + 10 + 0 * length(pg_sleep(1)::text) WHERE id = 1;';
print "\n    $slow\n";
my $writer = Zaris::Process::child(
	sub {
		open(my $file, '>', "$directory/writer");
		print $file answer($slow), "\n";
	});
sleep(0.4);
say_that('... while the second is quicker:');
show('UPDATE customer SET visits = visits + 1 WHERE id = 1 RETURNING visits');
say_that("The first is told so. Its application tries again, as for any serialization failure (40001):");
Zaris::Process::reap($writer, 30);
print slurp("$directory/writer");
show('UPDATE customer SET visits = visits + 10 WHERE id = 1 RETURNING visits');

say_that('Now the cluster changes under a session that runs these two statements without a pause, for random customers:');
print "\n", $loop_sql =~ s/^\t/    /mgr;
my $report = "$directory/loop";
my $loop = start_loop($report);
Zaris::Process::wait_until('the loop runs', sub { rounds($report) > 20 });

my $slot = Zaris::Resp::slot('customer:1');
my $from = $cluster->owner($slot);
my $to = ($from + 1) % 3;
$cluster->move_slot($slot, $to);
say_that(sprintf('Slot %d (customer:1) moves from port %d to port %d. Rounds so far: %d, errors: %d.',
	$slot, $cluster->port($from), $cluster->port($to), rounds($report), scalar(() = loop_errors())));
show('SELECT * FROM customer WHERE id = 1');

my $victim = $to;
$cluster->node($victim)->kill9;
my $killed = time();
say_that(sprintf('kill -9: the primary on port %d is gone. Its replica has to be elected ...', $cluster->port($victim)));
$cluster->wait_until_primary($victim + 3);
my $before = rounds($report);
Zaris::Process::wait_until('the loop goes on', sub { rounds($report) > $before + 50 });
printf "-- ... which took %.1f s.\n", time() - $killed;
kill('TERM', $loop);
Zaris::Process::reap($loop, 30) or die "the loop does not end\n";

# A write that was on its way to the killed node may have been applied or not: nobody can know, and 08007 says so.
my ($rounds, $longest) = slurp($report) =~ /(\S+)/g;
my @errors = loop_errors();
my @other = grep { $_ ne '08007' } @errors;
say_that("The loop made $rounds rounds with " . @other . " errors; its longest wait was $longest s: the election.",
	@errors > @other ? 'One write was under way to the node when it was killed: its outcome is unknown (08007).' : (),
	'(With the default max_attempts of 3 the wait would have ended earlier, with SQLSTATE 08006.)');
print slurp("$directory/loop-errors") if @errors;
show('SELECT count(*) AS customers FROM customer');

say_that('On your own:');
print <<"EOF_HAND";

    script/demo --keep                          this again, and then both stay up for you
    make && sudo make install                   into the PostgreSQL that pg_config names, then in SQL:
    CREATE EXTENSION zaris_fdw;
    CREATE SERVER kv FOREIGN DATA WRAPPER zaris_fdw OPTIONS (url 'redis://HOST:6379');
    CREATE USER MAPPING FOR CURRENT_USER SERVER kv OPTIONS (user '...', password '...');   -- if it asks for a login
    CREATE FOREIGN TABLE t (key text, value text, version bigint) SERVER kv OPTIONS (key '<key>');
EOF_HAND
printf "\nThat was all, in %.0f s.\n", time() - $start;

if ($keep)
{
	my $psql = (map { "$_/psql" } grep { -x "$_/psql" } split(/:/, $ENV{PATH}))[0];
	print "\nBoth stay up until Ctrl-C here, or script/demo --stop elsewhere:\n\n    $psql \"$dsn\"\n";
	print "    redis-cli -c -p ", $cluster->port(($victim + 1) % 3), "\n";
	sleep(3600) while 1;
}
exit(@other ? 1 : 0);
