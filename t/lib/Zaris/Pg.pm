# Zaris::Pg: a PostgreSQL server of the test's own, with the extension, and short ways to ask it.
#
#	my $pg = Zaris::Pg->new;								# name => ..., conf => "work_mem = '1MB'\n", extension => 0
#	$pg->server('kv', url => $cluster->url, max_attempts => 5);	# CREATE SERVER and a user mapping, if needed:
#	$pg->server('kv', url => ..., user => 'app', password => 'secret');
#	$pg->table('item', 'id int, value text, version bigint', key => 'item:<id>');	# on the last server; server => 'kv'
#	$pg->table('who', "id int, n text OPTIONS (field 'name')", key => 'who:<id>', layout => 'hash');
#
#	my $out = $pg->sql('SELECT ...');			# dies on an error
#	my $result = $pg->try('SELECT ...');		# see Zaris::Session: {out}, {sqlstate}, {message}, {detail}, {hint} ...
#	$pg->fails_with('40001', 'UPDATE ...', 'a test name');		# a test of its own; returns the result
#	my $session = $pg->session;					# a Zaris::Session that stays
#	$pg->pgbench("UPDATE ...;\n", clients => 4, transactions => 200, tries => 1000);	# returns what it printed
#	$pg->cluster								# the PostgreSQL::Test::Cluster: restart, logs, ...
#
# Use it before Test::More is asked to print anything: PostgreSQL::Test::Utils takes over the output.
package Zaris::Pg;

use strict;
use warnings;

use Carp;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Zaris::Process;
use Zaris::Session;

my $count = 0;

sub new
{
	my ($class, %option) = @_;
	my $cluster = PostgreSQL::Test::Cluster->new($option{name} // 'main' . ($count++ || ''));
	$cluster->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
	$cluster->append_conf('postgresql.conf', "fsync = off\nlog_min_messages = warning\n" . ($option{conf} // ''));
	$cluster->start;
	my $self = bless { cluster => $cluster }, $class;
	$self->sql('CREATE EXTENSION zaris_fdw') if $option{extension} // 1;
	return $self;
}

sub cluster { return $_[0]{cluster} }

sub connection
{
	my ($self, %option) = @_;
	my $connection = $self->{cluster}->connstr($option{dbname} // 'postgres');
	$connection .= " user='$option{user}'" if defined $option{user};
	return $connection;
}

sub session
{
	my ($self, %option) = @_;
	return Zaris::Session->new($self->connection(%option));
}

sub try
{
	my ($self, $sql, %option) = @_;
	my $session = $self->session(%option);
	my $result = $session->run($sql, $option{seconds});
	$session->close;
	return $result;
}

sub sql
{
	my ($self, $sql, %option) = @_;
	my $result = $self->try("\\set ON_ERROR_STOP 1\n$sql", %option);
	croak "$result->{stderr}in: $sql" if $result->{sqlstate} ne '00000';
	return $result->{out};
}

sub fails_with
{
	my ($self, $sqlstate, $sql, $name) = @_;
	my $result = $self->try($sql);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($result->{sqlstate}, $sqlstate, $name // $sql) or diag $result->{stderr};
	return $result;
}

sub server
{
	my ($self, $name, %option) = @_;
	my %login = map { exists $option{$_} ? ($_ => delete $option{$_}) : () } qw(user password);
	$self->sql("CREATE SERVER $name FOREIGN DATA WRAPPER zaris_fdw" . options(%option));
	$self->sql("CREATE USER MAPPING FOR CURRENT_USER SERVER $name" . options(%login)) if %login;
	$self->{server} = $name;
	return;
}

sub table
{
	my ($self, $name, $columns, %option) = @_;
	my $server = delete $option{server} // $self->{server};
	$self->sql("CREATE FOREIGN TABLE $name ($columns) SERVER $server" . options(%option));
	return;
}

sub options
{
	my (%option) = @_;
	return '' unless %option;
	return ' OPTIONS (' . join(', ', map { "$_ " . literal($option{$_}) } sort keys %option) . ')';
}

sub literal
{
	my ($text) = @_;
	return "'" . $text =~ s/'/''/gr . "'";
}

sub pgbench
{
	my ($self, $script, %option) = @_;
	my $path = Zaris::Process::short_directory() . '/script.sql';
	append_to_file($path, $script);
	my @command = (
		'pgbench', '-n', '-f', $path, '-c', $option{clients} // 1, '-t', $option{transactions} // 1,
		'--max-tries', $option{tries} // 1, $self->connection);
	my $ok = IPC::Run::run(\@command, '<', \'', '>', \my $out, '2>', \my $err);
	croak "pgbench failed:\n$out$err" unless $ok;
	return "$out$err";
}

1;
