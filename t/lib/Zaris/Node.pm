# Zaris::Node: one server process of Redis or Valkey, for Zaris::Single and Zaris::Cluster.
#
#	$node->call('GET', 'foo')		a reply as Zaris::Resp gives it; an error reply is a value
#	$node->ask('GET', 'foo')		the same, but an error reply dies
#	$node->kill9; $node->restart;
#	$node->pause; $node->resume;	SIGSTOP and SIGCONT: it accepts, and says nothing
#	$node->info('replication')		a section of INFO as a hash reference
#	$node->calls					commandstats: { get => 3, 'cluster|shards' => 1 ... }
#	$node->port, $node->pid, $node->log
#
# $ENV{ZARIS_TEST_SERVER} names the program; else redis-server, else valkey-server.  None is an error, never a skip.
package Zaris::Node;

use strict;
use warnings;

use Carp;
use File::Path qw(mkpath rmtree);
use Zaris::Process;
use Zaris::Resp;

# The program, and whether it is there at all.
sub server
{
	my @names = $ENV{ZARIS_TEST_SERVER} // ('redis-server', 'valkey-server');
	for my $name (@names)
	{
		return $name if $name =~ m{/} && -x $name;
		return $name if grep { -x "$_/$name" } split(/:/, $ENV{PATH});
	}
	croak "no server to test with: @names not found in $ENV{PATH}";
}

# Since Redis 7.2, and in every Valkey, nodes belong to shards that have ids.
sub has_shard_ids
{
	my ($server) = @_;
	my ($name, $major, $minor) = `$server --version` =~ /^(\w+) server v=(\d+)\.(\d+)/i
	  or croak "$server does not tell its version";
	return $name =~ /valkey/i || $major > 7 || $major == 7 && $minor >= 2;
}

# port, directory, args => [ ... ], password, path (of a unix socket)
sub new
{
	my ($class, %option) = @_;
	my $self = bless { args => [], server => server(), %option }, $class;
	mkpath($self->{directory});
	$self->{log} = "$self->{directory}/log";
	return $self;
}

sub port { return $_[0]{port} }
sub pid { return $_[0]{pid} }
sub log { return $_[0]{log} }

# Start the process without waiting for it.
sub launch
{
	my ($self) = @_;
	my @args = (
		'--port', $self->{port}, '--bind', '127.0.0.1', '--dir', $self->{directory},
		'--save', '', '--appendonly', 'no', '--enable-debug-command', 'local', '--enable-protected-configs', 'local',
		'--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1');
	push @args, '--unixsocket', $self->{path} if $self->{path};
	push @args, '--requirepass', $self->{password}, '--masterauth', $self->{password} if defined $self->{password};
	$self->{connection} = undef;
	$self->{pid} = Zaris::Process::spawn($self->{log}, $self->{server}, @args, @{ $self->{args} });
	return $self;
}

sub wait_until_up
{
	my ($self) = @_;
	Zaris::Process::wait_until(
		"the node on port $self->{port} answers (log: $self->{log})",
		sub { !$self->is_running || $self->call('PING') eq 'PONG' });
	croak "the node on port $self->{port} ended:\n" . $self->log_tail unless $self->is_running;
	return $self;
}

sub log_tail
{
	my ($self) = @_;
	open(my $file, '<', $self->{log}) or return '';
	my @lines = <$file>;
	return join('', @lines > 10 ? @lines[ -10 .. -1 ] : @lines);
}

# Every call takes the same connection, made anew after a break.
sub call
{
	my ($self, @command) = @_;
	my $reply = eval { $self->_connection->call(@command) };
	return $reply unless $@;
	$self->{connection} = undef;
	die $@;
}

sub ask
{
	my ($self, @command) = @_;
	my $reply = $self->call(@command);
	croak "port $self->{port}: $command[0]: $reply" if Zaris::Resp::is_error($reply);
	return $reply;
}

# A connection of your own. auth => [ ... ] logs in; without it the node's password is used, if it has one.
sub connect
{
	my ($self, %option) = @_;
	$option{auth} //= [ $self->{password} ] if defined $self->{password};
	return Zaris::Resp->new(port => $self->{port}, %option);
}

sub _connection
{
	my ($self) = @_;
	$self->{connection} = undef if ($self->{connection_owner} // 0) != $$;    # never a parent's
	$self->{connection_owner} = $$;
	return $self->{connection} //= $self->connect;
}

sub info
{
	my ($self, $section) = @_;
	return { $self->ask('INFO', $section) =~ /^([^#:\r\n]+):([^\r\n]*)/mg };
}

sub calls
{
	my ($self) = @_;
	my $info = $self->info('commandstats');
	my %calls;
	for my $name (keys %$info)
	{
		my ($command) = $name =~ /^cmdstat_(.+)/;
		($calls{$command}) = $info->{$name} =~ /calls=(\d+)/;
	}
	return \%calls;
}

sub kill9
{
	my ($self) = @_;
	Zaris::Process::finish($self->{pid});
	$self->{connection} = undef;
	return;
}

sub pause { kill('STOP', $_[0]{pid}); return }
sub resume { kill('CONT', $_[0]{pid}); return }

sub is_running
{
	my ($self) = @_;
	return !Zaris::Process::reap($self->{pid});
}

# On the same port. Nothing was saved: it comes back empty.
sub restart
{
	my ($self) = @_;
	$self->kill9;
	return $self->launch->wait_until_up;
}

1;
