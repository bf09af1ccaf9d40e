# What one backend keeps: sessions are made when needed, shared by those who may, dropped when their SERVER or USER
# MAPPING changes, never under somebody's feet; and no error path leaves anything behind.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use Test::More;
use Time::HiRes qw(time);
use Zaris::FakeNode;
use Zaris::Pg;
use Zaris::Process;
use Zaris::Single;

my $node = Zaris::Single->new;
my $pg = Zaris::Pg->new;
$pg->server('kv', url => $node->url, request_timeout => '60s');
$pg->table('item', 'id int, value text', key => 'item:<id>', fetch_size => 10);
$node->call('SET', "item:$_", "value $_") for 1 .. 500;

my $session = $pg->session;
my $get = 'SELECT value FROM item WHERE id = 1';
my $count = 'SELECT count(*) FROM item';

sub connections { return $session->run('SELECT server_name, nodes, in_use, current FROM zaris_connections ORDER BY 1, 4')->{out} }
sub is_served { is($session->run($get)->{out}, 'value 1', $_[0]); return }

# The store's own count of connections that call themselves ours; it notices a closed one a moment later.
sub clients_are
{
	my ($wanted, $name) = @_;
	my $n;
	eval {
		Zaris::Process::wait_until($name, sub {
			$n = () = $node->call('CLIENT', 'LIST') =~ /name=zaris_fdw/g;
			$n == $wanted;
		}, 5);
	};
	is($n, $wanted, $name);
	return;
}

# ---- made when needed, kept, dropped

is(connections(), '', 'no connection before the first use');
is_served('the first use');
is(connections(), 'kv|1|f|t', 'makes one');
is_served('the second') for 1 .. 3;
clients_are(1, 'uses the same');
is($session->run('SELECT zaris_disconnect(\'kv\')')->{out}, '1', 'zaris_disconnect');
is(connections(), '', 'closes it');
clients_are(0, '... at the store too');
is_served('and the next use makes another');

for my $change (
	"ALTER SERVER kv OPTIONS (ADD max_attempts '2')",
	"CREATE USER MAPPING IF NOT EXISTS FOR CURRENT_USER SERVER kv OPTIONS (user 'default', password 'x')",
	"ALTER USER MAPPING FOR CURRENT_USER SERVER kv OPTIONS (SET password 'y')",
	'DROP USER MAPPING FOR CURRENT_USER SERVER kv')
{
	is_served("before: $change");
	my $id = $node->call('CLIENT', 'LIST') =~ /id=(\d+)[^\n]*name=zaris_fdw/ ? $1 : 0;
	$pg->sql($change);
	is_served("after: $change");
	unlike($node->call('CLIENT', 'LIST'), qr/id=$id /, '... over a new connection');
}
$session->run('SELECT zaris_disconnect(\'kv\')');

# ---- a change comes while a session is in use

is_served('connected');
$session->run('BEGIN; DECLARE c CURSOR FOR SELECT id FROM item');
is(scalar(split /\n/, $session->run('FETCH 5 FROM c')->{out}), 5, 'a cursor is open');
is(connections(), 'kv|1|t|t', '... and its connection in use');
$pg->sql("ALTER SERVER kv OPTIONS (SET max_attempts '3')");
is_served('somebody changes the server; a new statement goes by the new options');
is(connections(), "kv|1|t|f\nkv|1|f|t", '... while the cursor keeps the old connection');
is(scalar(split /\n/, $session->run('FETCH ALL FROM c')->{out}), 495, '... and reads to its end');
is($session->run('SELECT zaris_disconnect(\'kv\')')->{out}, '0', 'what this transaction used is not closed at once');
is_served('the transaction goes on');
$session->run('COMMIT');
is(connections(), 'kv|1|f|t', '... which, when it ends, leaves only the connection made last');
$session->run('SELECT zaris_disconnect(\'kv\')');

$session->run('BEGIN; DECLARE c CURSOR FOR SELECT id FROM item; FETCH 5 FROM c; SELECT zaris_disconnect(\'kv\')');
is(scalar(split /\n/, $session->run('FETCH ALL FROM c')->{out}), 495, 'a cursor outlives zaris_disconnect');
$session->run('ROLLBACK');
is(connections(), '', 'also in a transaction that is rolled back');

# ---- a prepared statement and a function outlive a change

$session->run('PREPARE p (int) AS SELECT value FROM item WHERE id = $1');
$session->run('SET plan_cache_mode = force_generic_plan');
is($session->run('EXECUTE p (7)')->{out}, 'value 7', 'a prepared statement');
$pg->sql("ALTER SERVER kv OPTIONS (SET max_attempts '4')");
is($session->run('EXECUTE p (8)')->{out}, 'value 8', '... after a change of the server');
$session->run('RESET plan_cache_mode');

# ---- errors that are caught: savepoints and exception blocks (I10)

sub paused
{
	my ($sql) = @_;
	$session->run('SET statement_timeout = 200');
	$node->pause;
	my $result = $session->run($sql, 10);
	$node->resume;
	$session->run('SET statement_timeout = 0');
	return $result;
}

$session->run('BEGIN');
is_served('in a transaction');
$session->run('SAVEPOINT a');
is(paused($get)->{sqlstate}, '57014', 'a cancelled statement');
$session->run('ROLLBACK TO a');
is_served('after ROLLBACK TO the next one gets its own answer');
$session->run('SAVEPOINT b');
is(paused($count)->{sqlstate}, '57014', 'a cancelled scan');
$session->run('ROLLBACK TO b');
is($session->run($count)->{out}, 500, 'after ROLLBACK TO the next scan is complete');
$session->run('COMMIT');

$pg->server('broken', url => Zaris::FakeNode->new(single => 1, 'GET' => "*1\r\n\$1\r\nx\r\n")->url);
$pg->table('broken_item', 'id int, value text', key => 'item:<id>');
my $block = q{DO $$ BEGIN
	FOR i IN 1 .. 50 LOOP
		BEGIN
			PERFORM value FROM broken_item WHERE id = i;
			RAISE 'no error';
		EXCEPTION WHEN protocol_violation THEN NULL;
		END;
		PERFORM 1 / (value = 'value ' || i)::int FROM item WHERE id = i;
	END LOOP;
END $$};
is($session->run($block)->{sqlstate}, '00000', 'exceptions that PL/pgSQL catches leave nothing behind');
like($session->run('SELECT value FROM broken_item WHERE id = 1')->{message},
	qr/^could not get key "item:1" of foreign table "broken_item"/, 'and the error names operation, key and table');

# A loop over one foreign table in which another fails, and is left early: the outer scan goes on.
is($session->run(q{DO $$ DECLARE n int := 0; r record; BEGIN
	FOR r IN SELECT id FROM item LOOP
		BEGIN
			PERFORM value FROM broken_item WHERE id = r.id LIMIT 1;
		EXCEPTION WHEN protocol_violation THEN n := n + 1;
		END;
	END LOOP;
	IF n <> 500 THEN RAISE 'only %', n; END IF;
END $$})->{sqlstate}, '00000', 'a scan goes on while statements inside its loop fail');

# ---- descriptors

my $pid = $session->pid;
sub descriptors { my @open = glob("/proc/$pid/fd/*"); return scalar @open }
my ($nobody) = Zaris::Process::free_ports(1);
$pg->server('nobody', url => "redis://127.0.0.1:$nobody", max_attempts => 1);
$pg->table('nobody_item', 'id int, value text', key => 'item:<id>');
$pg->server('locked', url => $node->url, max_attempts => 1);
$pg->sql("CREATE USER MAPPING FOR CURRENT_USER SERVER locked OPTIONS (user 'nobody', password 'wrong')");
$pg->table('locked_item', 'id int, value text', key => 'item:<id>');
my %sqlstate = (nobody_item => '08001', locked_item => '28P01', broken_item => '08P01');
for my $table (sort keys %sqlstate)
{
	my $select = "SELECT value FROM $table WHERE id = 1";
	is($session->run($select)->{sqlstate}, $sqlstate{$table}, "an error of $table");
	my $before = descriptors();
	$session->run($select) for 1 .. 200;
	cmp_ok(descriptors(), '<=', $before + 1, '... 200 times leaves no descriptor open');
}
$session->run("SELECT zaris_disconnect('$_')") for qw(kv broken nobody locked);
is(connections(), '', 'all closed');
is_served('and in working order');

# ---- who may use whose session

$pg->sql(q{CREATE ROLE ann LOGIN; GRANT SELECT ON item TO ann; GRANT USAGE ON FOREIGN SERVER kv TO ann});
my $set_role = sub { $session->run("SET ROLE $_[0]") };
$set_role->('ann');
is($session->run($get)->{sqlstate}, '2F003', 'a superuser\'s session is not for others');
$set_role->('NONE');
$pg->sql(q{CREATE USER MAPPING FOR PUBLIC SERVER kv OPTIONS (user 'default')});
is_served('a superuser may use a PUBLIC mapping without password');
$set_role->('ann');
is($session->run($get)->{sqlstate}, '2F003', '... and others not, though its session is open');
$set_role->('NONE');
$pg->sql(q{ALTER USER MAPPING FOR PUBLIC SERVER kv OPTIONS (ADD password_required 'false')});
$set_role->('ann');
is_served('... until a superuser says so');
$set_role->('NONE');
is($session->run('SELECT user_name FROM zaris_connections')->{out}, 'public', 'zaris_connections names the mapping');
$pg->sql('DROP USER MAPPING FOR PUBLIC SERVER kv; CREATE VIEW seen AS TABLE item; GRANT SELECT ON seen TO ann');
$set_role->('ann');
is($session->run('SELECT value FROM seen WHERE id = 1')->{out}, 'value 1', 'a view is read as its owner');
$set_role->('NONE');

# ---- the ends of a backend

$session->run('BEGIN; DECLARE c CURSOR FOR SELECT id FROM item; FETCH 1 FROM c');
$pg->sql("SELECT pg_terminate_backend($pid)");
Zaris::Process::wait_until('the backend is gone', sub { !-d "/proc/$pid" }, 10);
clients_are(0, 'a terminated backend closes its connections');
$session->close;

$session = $pg->session;
$session->run('BEGIN; DECLARE c CURSOR FOR SELECT id FROM item; FETCH 1 FROM c');
$session->close;
clients_are(0, 'and one whose client goes away');

# ---- a preloaded library is inherited by fork

$pg->cluster->append_conf('postgresql.conf', "shared_preload_libraries = 'zaris_fdw'\n");
$pg->cluster->restart;
my @many = map { $pg->session } 1 .. 8;
$_->start("$count; $get") for @many;
is_deeply([ map { $_->finish(30)->{out} } @many ], [ ("500\nvalue 1") x 8 ], 'many sessions of a preloaded library');
clients_are(8, 'each has its own connection');
$_->close for @many;
clients_are(0, 'and closes it');

# ---- postmaster death ends a wait

$session = $pg->session;
$session->run($get);
$pid = $session->pid;
$node->pause;
$session->start($get);
Zaris::Process::wait_until('it waits',
	sub { $pg->sql("SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid") eq 'Extension' });
my ($postmaster) = split /\n/, PostgreSQL::Test::Utils::slurp_file($pg->cluster->data_dir . '/postmaster.pid');
kill('KILL', $postmaster);
my $start = time;
Zaris::Process::wait_until('the backend is gone', sub { !-d "/proc/$pid" }, 10);
cmp_ok(time - $start, '<', 3, 'a backend that waits for a node goes with its postmaster');
$node->resume;
$session->close;
$pg->cluster->{_pid} = undef;

done_testing();
