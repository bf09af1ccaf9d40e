# Options, GUCs and the functions that need no store: what is accepted, what is refused, and what the refusal says.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION zaris_fdw;
	CREATE ROLE ann LOGIN;
	CREATE ROLE ben LOGIN;
	GRANT USAGE ON FOREIGN DATA WRAPPER zaris_fdw TO ann;
});

# What psql says to a statement, with SQLSTATE.
sub complaint
{
	my ($sql, $user) = @_;
	my ($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql",
		$user ? (extra_params => [ '-U', $user ]) : ());
	return $err;
}

# A statement, and what its error must match; a hash at the end names the user.
sub refused
{
	my ($name, $sql, @patterns) = @_;
	my $user = ref $patterns[-1] eq 'HASH' ? (pop @patterns)->{user} : undef;
	my $error = complaint($sql, $user);
	my @missing = grep { $error !~ $_ } @patterns;
	ok($error ne '' && !@missing, $name) or diag("$sql\n$error\nmissing: @missing");
	return;
}

sub accepted
{
	my ($name, $sql, $user) = @_;
	is(complaint($sql, $user), '', $name) or diag($sql);
	return;
}

my $url = "url 'redis://127.0.0.1:1'";

sub server { return "CREATE SERVER s FOREIGN DATA WRAPPER zaris_fdw OPTIONS ($_[0])" }

sub server_refused
{
	my ($options, @patterns) = @_;
	refused("server: $options", server($options), @patterns);
	return;
}

# Created and dropped again, so that each stands alone.
sub server_accepted
{
	my ($options) = @_;
	accepted("server: $options", server($options) . '; DROP SERVER s');
	return;
}

# unknown options
refused('wrapper: none', 'ALTER FOREIGN DATA WRAPPER zaris_fdw OPTIONS (ADD url $$x$$)',
	qr/HV00D: invalid option "url" for a foreign-data wrapper/, qr/It is an option of a server/);
server_refused("$url, max_atempts '3'", qr/HV00D: invalid option "max_atempts" for a server/,
	qr/HINT:  Perhaps you meant the option "max_attempts"\./);
server_refused("$url, requestTimeout '3'", qr/HV00D/, qr/Perhaps you meant the option "request_timeout"/);
server_refused("$url, colour 'red'", qr/HV00D/,
	qr/HINT:  Valid options in this context are: url, max_attempts, backoff, request_timeout, connect_timeout, map_refresh_wait, fetch_size, batch_size\./);
server_refused("$url, password 'sesame'", qr/HV00D: invalid option "password" for a server/,
	qr/It is an option of a user mapping/);
server_refused("$url, " . ('x' x 200) . " 'long'", qr/HV00D/);
server_refused("$url, url 'redis://127.0.0.1:2'", qr/42710/);

# what later versions will have
for my $option (qw(breaker breaker_failures breaker_timeouts breaker_window breaker_open breaker_open_max
	breaker_successes read_from sslmode sslrootcert sslcert sslkey))
{
	server_refused("$url, $option '1'", qr/0A000: option "$option" of a server is not supported by this version/);
}
server_refused("url '$_'", qr/0A000: the scheme in option "url" is not supported/, qr/HINT:  Use a url that begins with zaris/)
  for 'rediss://h', 'valkeys://h';

# url
server_accepted($_) for "max_attempts '3'", "url 'zaris://inproc/main'", "url 'zaris://inproc/A-b_9'";
accepted('server: no options', 'CREATE SERVER s FOREIGN DATA WRAPPER zaris_fdw; DROP SERVER s');
refused("an embedded store is not everybody's to make: $_", "CREATE SERVER s FOREIGN DATA WRAPPER zaris_fdw $_",
	qr/42501: permission denied to create or alter a server with an embedded store/, qr/DETAIL.*HINT/s, { user => 'ann' })
  for '', "OPTIONS (max_attempts '3')", "OPTIONS (url 'zaris://inproc/main')";
accepted('another is', server("url 'redis://a'") . '; DROP SERVER s', 'ann');
server_accepted("url '$_'")
  for 'redis://a', 'redis://a:1,b:2,[::1]:3/4', 'valkey://a', 'unix:///run/redis.sock', 'unix:///run/redis.sock?db=2';
server_refused("url '$_'", qr/22023: invalid value for option "url"\n/, qr/DETAIL:  \w.*\.\n/)
  for '', 'a', 'http://a', 'redis://', 'redis://a:0', 'redis://a:65536', 'redis://a,,b', 'redis://a/x', 'redis://[::1',
  'redis://::1', 'unix://x', 'redis://a b', 'redis://a:1?x=y', 'zaris://main', 'zaris://inproc/', 'zaris://inproc/../x';
{
	my $error = complaint(server("url 'redis://ann:sesame\@a:1'"));
	like($error, qr/22023.*DETAIL:  Credentials do not belong into a URL/s, 'url: credentials are refused');
	$error =~ s/^.*(STATEMENT|LINE).*$//mg;
	unlike($error, qr/sesame/, 'url: and not repeated');
}

# numbers
server_accepted("$url, $_")
  for "max_attempts '1'", "max_attempts '1000'", "fetch_size '1'", "batch_size '1000000'";
server_refused("$url, $_", qr/22023: invalid value for option "\w+": ".*"/, qr/DETAIL:  Expected a number between \d+ and \d+\./)
  for "max_attempts '0'", "max_attempts '1001'", "max_attempts '-1'", "max_attempts 'three'", "max_attempts ''",
  "max_attempts '3 s'", "fetch_size '0'", "batch_size '99999999999'";

# durations
server_accepted("$url, $_")
  for "backoff '0'", "backoff '250ms'", "request_timeout '1min'", "request_timeout '0'", "connect_timeout '1.5s'",
  "map_refresh_wait ' 15 s '";
server_refused("$url, $_", qr/22023/, qr/DETAIL:  Expected a duration between \d+ ms and \d+ ms, such as "250ms" or "15s"\./)
  for "backoff '-1ms'", "backoff '2h'", "request_timeout 'soon'", "request_timeout 'nan'", "connect_timeout '0'",
  "map_refresh_wait '1000d'";
server_refused("$url, backoff '3 weeks'", qr/HINT:  Valid units for this parameter are "us", "ms", "s", "min", "h", and "d"\./);

# ALTER SERVER checks the whole as well
$node->safe_psql('postgres', server($url));
accepted('alter server: url may go', 'BEGIN; ALTER SERVER s OPTIONS (DROP url); ROLLBACK');
refused('alter server: a bad value', "ALTER SERVER s OPTIONS (ADD backoff 'x')", qr/22023/);
accepted('alter server', "ALTER SERVER s OPTIONS (ADD backoff '5ms', SET url 'redis://b')");

# user mappings
$node->safe_psql('postgres', 'GRANT USAGE ON FOREIGN SERVER s TO ann, ben; ALTER SERVER s OWNER TO ann');
refused("alter server: its owner cannot make it embedded: $_", "ALTER SERVER s OPTIONS ($_)", qr/42501: permission denied/, { user => 'ann' })
  for 'DROP url', "SET url 'zaris://inproc/main'";

sub mapping { return "CREATE USER MAPPING FOR ben SERVER s OPTIONS ($_[0]); DROP USER MAPPING FOR ben SERVER s" }
accepted("mapping: $_", mapping($_))
  for "user 'a', password 'b'", "password 'b'", "password ''", "password_required 'true'", "password_required 'off'";
refused("mapping: bad Boolean", mapping("password_required 'maybe'"), qr/22023/, qr/Expected a Boolean value/);
refused("mapping: empty user", mapping("user ''"), qr/22023/);
refused("mapping: unknown", mapping("passwort 'b'"), qr/HV00D/, qr/Perhaps you meant the option "password"/);
refused("mapping: url", mapping("url 'b'"), qr/HV00D/, qr/It is an option of a server/);
accepted('mapping: an owner of the server may make one', mapping("password 'b'"), 'ann');
refused('mapping: but not one without password',
	mapping("password_required 'false'"),
	qr/42501: permission denied to set option "password_required" to false/, { user => 'ann' });
$node->safe_psql('postgres', "CREATE USER MAPPING FOR ben SERVER s OPTIONS (password_required 'false')");
refused('mapping: nor change one', "ALTER USER MAPPING FOR ben SERVER s OPTIONS (ADD password 'b')",
	qr/42501/, { user => 'ann' });
accepted('mapping: unless it gets one', "ALTER USER MAPPING FOR ben SERVER s OPTIONS (SET password_required 'true')", 'ann');

# foreign tables
sub table { return "CREATE FOREIGN TABLE t (id int, v text) SERVER s OPTIONS ($_[0]); DROP FOREIGN TABLE t" }
my $key = "key 'k:<id>'";
accepted("table: $_", table($_))
  for $key, "$key, layout 'hash'", "$key, layout 'string'", "$key, versioning 'content'", "$key, write_mode 'immediate'",
  "$key, ttl '30d'", "$key, ttl '1ms', read_only 'yes'", "$key, fetch_size '10', batch_size '1'", "key '<<x:<id>'";
refused('table: no key', table("layout 'hash'"), qr/HV002: option "key" is required/, qr/HINT/);
refused('table: no options', 'CREATE FOREIGN TABLE t (id int) SERVER s', qr/HV002/);
refused("table: key '$_'", table("key '$_'"), qr/22023: invalid value for option "key"/, qr/DETAIL/)
  for '', 'x', '<id', '<a><b>', '<>';
refused("table: $_", table("$key, $_"), qr/0A000: value "\w+" of option "\w+" is not supported by this version/)
  for "layout 'json'", "versioning 'counter'", "write_mode 'deferred'";
refused("table: read_from", table("$key, read_from 'primary'"), qr/0A000: option "read_from" of a foreign table/);
refused("table: layout", table("$key, layout 'list'"), qr/22023/, qr/Expected one of: string\|hash/);
refused("table: $_", table("$key, $_"), qr/22023/) for "ttl '0'", "ttl '200000d'", "read_only 'perhaps'", "fetch_size '0'", "layout ''";
refused("table: unknown", table("$key, lay_out 'hash'"), qr/HV00D/, qr/Perhaps you meant the option "layout"/);
$node->safe_psql('postgres', "CREATE FOREIGN TABLE t (id int, v text) SERVER s OPTIONS ($key)");
refused('table: key cannot go', 'ALTER FOREIGN TABLE t OPTIONS (DROP key)', qr/HV002/);

# columns
sub column { return "ALTER FOREIGN TABLE t ALTER v OPTIONS (ADD $_[0]); ALTER FOREIGN TABLE t ALTER v OPTIONS (DROP $_[1])" }
accepted("column: role $_", column("role '$_'", 'role')) for qw(value version expires_at);
accepted('column: field', column("field 'the name'", 'field'));
refused('column: role', column("role 'key'", 'role'), qr/22023/, qr/Expected one of: value\|version\|expires_at/);
refused('column: unknown', column("roll 'value'", 'roll'), qr/HV00D/, qr/Perhaps you meant the option "role"/);
refused('column: key', column("key 'x'", 'key'), qr/HV00D/, qr/It is an option of a foreign table/);

# zaris_options() lists what the validator accepts, each in a place of its own
is($node->safe_psql('postgres', q{SELECT object, count(*) FROM zaris_options() GROUP BY 1 ORDER BY 1}),
	"column|2\nforeign table|8\nserver|8\nuser mapping|3", 'zaris_options() lists all');
is($node->safe_psql('postgres', q{SELECT kind, allowed, default_value FROM zaris_options() WHERE name = 'layout'}),
	'choice|string|hash|string', 'with kind, values and default');
is($node->safe_psql('postgres', q{SELECT count(*) FROM zaris_options() WHERE meaning IS NULL OR kind IS NULL}),
	'0', 'and meaning');
my %sample = (url => 'redis://a', integer => 5, duration => '5s', boolean => 'on', 'key template' => 'k:<id>', text => 'x');
my %change = (
	server => 'ALTER SERVER s OPTIONS',
	'user mapping' => 'ALTER USER MAPPING FOR ben SERVER s OPTIONS',
	'foreign table' => 'ALTER FOREIGN TABLE t OPTIONS',
	column => 'ALTER FOREIGN TABLE t ALTER v OPTIONS');
my %there = ('server url' => 1, 'server backoff' => 1, 'foreign table key' => 1, 'user mapping password_required' => 1);
for my $row (split /\n/, $node->safe_psql('postgres', q{SELECT concat_ws('~', object, name, kind, allowed) FROM zaris_options()}))
{
	my ($object, $name, $kind, $allowed) = split /~/, $row;
	my $value = $kind eq 'choice' ? $allowed =~ s/\|.*//r : $sample{$kind};
	my $action = $there{"$object $name"} ? 'SET' : 'ADD';
	accepted("zaris_options(): $object $name", "BEGIN; $change{$object} ($action $name '$value'); ROLLBACK");
}
$node->safe_psql('postgres', 'DROP USER MAPPING FOR ben SERVER s');

# GUCs
is($node->safe_psql('postgres', q{LOAD 'zaris_fdw'; SELECT string_agg(name || '=' || current_setting(name), ' ' ORDER BY name)
	FROM (VALUES ('zaris.backoff'), ('zaris.disable_retries'), ('zaris.map_refresh_wait'), ('zaris.max_attempts'),
		('zaris.request_timeout')) v (name)}),
	'zaris.backoff=100ms zaris.disable_retries=off zaris.map_refresh_wait=15s zaris.max_attempts=3 zaris.request_timeout=1min',
	'GUCs have the defaults of the documentation');
refused("GUC: $_", "LOAD 'zaris_fdw'; SET $_", qr/22023/)
  for 'zaris.max_attempts = 0', q{zaris.backoff = '-1'}, q{zaris.request_timeout = 'infinite'}, 'zaris.disable_retries = perhaps';
refused('GUC: the prefix is reserved', "LOAD 'zaris_fdw'; SET zaris.max_atempts = 3", qr/42602.*"zaris" is a reserved prefix/s);
is($node->safe_psql('postgres', q{SELECT zaris_slot('x') * 0; SET zaris.disable_retries = on; SHOW zaris.disable_retries},
		extra_params => [ '-U', 'ben' ]), "0\non", 'GUC: anybody may set them');

sub settings_with
{
	my (%environment) = @_;
	local @ENV{ keys %environment } = values %environment;
	$node->restart;
	return $node->safe_psql('postgres', q{LOAD 'zaris_fdw'; SELECT current_setting('zaris.backoff'),
		current_setting('zaris.disable_retries'), current_setting('zaris.map_refresh_wait'),
		current_setting('zaris.max_attempts'), current_setting('zaris.request_timeout')});
}
is(settings_with(
		ZARIS_BACKOFF => '5ms', ZARIS_DISABLE_RETRIES => 'true', ZARIS_CLIENT_MAP_REFRESH_WAIT_MS => '2500',
		ZARIS_MAX_ATTEMPTS => '7', ZARIS_REQUEST_TIMEOUT => 'infinite'),
	'5ms|on|2500ms|7|0', 'GUCs boot from the environment');
my $offset = -s $node->logfile;
is(settings_with(
		ZARIS_BACKOFF => 'secret', ZARIS_DISABLE_RETRIES => 'perhaps', ZARIS_CLIENT_MAP_REFRESH_WAIT_MS => '-5',
		ZARIS_MAX_ATTEMPTS => '0', ZARIS_REQUEST_TIMEOUT => ''),
	'100ms|off|15s|3|1min', 'and not from what cannot be used');
my $log = slurp_file($node->logfile, $offset);
like($log, qr/WARNING:  environment variable $_ of the server is not usable and is ignored/, "which the log says: $_")
  for qw(ZARIS_BACKOFF ZARIS_DISABLE_RETRIES ZARIS_CLIENT_MAP_REFRESH_WAIT_MS ZARIS_MAX_ATTEMPTS);
unlike($log, qr/WARNING.*(secret|ZARIS_REQUEST_TIMEOUT)/, 'without the value, and an empty one is none');
$node->restart;

# functions
is($node->safe_psql('postgres', q{SELECT zaris_slot('foo'), zaris_slot(''), zaris_slot('{a}1'), zaris_slot('\x610062'::bytea)}),
	'12182|0|15495|8383', 'zaris_slot()');
is($node->safe_psql('postgres', q{SELECT zaris_version('abc'), zaris_version('\x616263'::bytea), zaris_version('')}),
	'-6225876607022235286|-6225876607022235286|-2721964255587120371', 'zaris_version()')
  or diag('the first 8 bytes of SHA-1');
is($node->safe_psql('postgres', q{SELECT zaris_slot(NULL::text) IS NULL, zaris_version(NULL::bytea) IS NULL}), 't|t', 'NULL stays NULL');
is($node->safe_psql('postgres', q{SELECT count(*) FROM zaris_connections}), '0', 'no connection before the first use');
is($node->safe_psql('postgres', q{SELECT zaris_disconnect('s')}), '0', 'and none to close');
refused('zaris_disconnect: unknown server', q{SELECT zaris_disconnect('nowhere')}, qr/42704/);
$node->safe_psql('postgres', 'CREATE FOREIGN DATA WRAPPER bare; CREATE SERVER bare FOREIGN DATA WRAPPER bare');
refused("$_: not ours", qq{SELECT $_('bare')}, qr/55000|42809/) for qw(zaris_disconnect zaris_refresh_map);

# who may use a server: decided before anything is sent
$node->safe_psql('postgres', 'GRANT SELECT ON t TO ann, ben');
refused('a user without mapping needs a password', q{SELECT zaris_refresh_map('s')},
	qr/2F003: password is required/, qr/DETAIL.*HINT/s, { user => 'ben' });
$node->safe_psql('postgres', q{CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (user 'x')});
refused('one with a mapping too', q{SELECT zaris_refresh_map('s')}, qr/2F003/, { user => 'ben' });
$node->safe_psql('postgres', q{REVOKE USAGE ON FOREIGN SERVER s FROM ben});
refused('one without USAGE is not heard', q{SELECT zaris_refresh_map('s')}, qr/42501/, { user => 'ben' });

done_testing();
