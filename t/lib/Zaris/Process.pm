# Zaris::Process: programs, directories and ports of one test, all gone when the test ends, however it ends.
#
#	my $pid = Zaris::Process::spawn($logfile, 'redis-server', @args);
#	Zaris::Process::reap($pid, $seconds);		# true when it has ended
#	Zaris::Process::finish($pid);				# kill -9 and wait
#	my $pid = Zaris::Process::child(sub { ... });	# a forked Perl process; never returns into the test
#	my $directory = Zaris::Process::directory('name');
#	my @ports = Zaris::Process::free_ports(6);
#	Zaris::Process::wait_until('what', sub { ... }, $seconds);		# dies when it does not come true
#
# Programs are bound to the test's life twice: by an END block, and by the kernel (a parent death signal) in case the test
# itself is killed.  Ports lie below 22768, so that a cluster node's bus port (port + 10000, unless told otherwise) is
# below the ephemeral range too: an outgoing connection of somebody else may sit on a port of that range.
package Zaris::Process;

use strict;
use warnings;

use Carp;
use File::Path qw(rmtree);
use File::Spec;
use File::Temp ();
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX ();
use Time::HiRes qw(sleep time);

use constant { LOWEST_PORT => 10500, HIGHEST_PORT => 22767 };

my $owner = $$;    # forked children inherit the lists below but must not act on them
my %running;
my @kept_on_failure;
my @scratch;
my %reserved;

# Ctrl-C and kill must run the END block, and no eval may swallow them.
$SIG{INT} = $SIG{TERM} = sub { exit 130 };

sub spawn
{
	my ($logfile, @command) = @_;
	my $pid = fork() // croak "could not fork: $!";
	if ($pid == 0)
	{
		open(STDIN, '<', '/dev/null');
		open(STDOUT, '>>', $logfile);
		open(STDERR, '>&', \*STDOUT);
		# A group of its own: Ctrl-C in the terminal reaches the test, which then ends its programs in order.
		POSIX::setpgid(0, 0);
		@SIG{qw(INT TERM PIPE)} = ('DEFAULT') x 3;
		die_with_parent();
		no warnings 'exec';
		exec(@command);
		print "could not run $command[0]: $!\n";
		POSIX::_exit(127);
	}
	$running{$pid} = 1;
	return $pid;
}

sub child
{
	my ($body) = @_;
	my $pid = fork() // croak "could not fork: $!";
	if ($pid == 0)
	{
		@SIG{qw(INT TERM)} = ('DEFAULT') x 2;
		die_with_parent();
		my $done = eval { $body->(); 1 };
		print STDERR "child process: $@" unless $done;
		POSIX::_exit($done ? 0 : 1);    # no END blocks, no buffers of the test
	}
	$running{$pid} = 1;
	return $pid;
}

# prctl(PR_SET_PDEATHSIG, SIGKILL); it outlives the exec.
sub die_with_parent
{
	eval { require 'syscall.ph'; syscall(&SYS_prctl, 1, 9, 0, 0, 0) };
	POSIX::_exit(1) if getppid() != $owner;    # it died before
	return;
}

sub reap
{
	my ($pid, $seconds) = @_;
	return !kill(0, $pid) if $$ != $owner;    # only the test itself can wait for it
	my $end = time() + ($seconds // 0);
	while ($running{$pid})
	{
		my $got = waitpid($pid, POSIX::WNOHANG());
		delete $running{$pid} if $got == $pid || $got < 0;
		return 1 unless $running{$pid};
		return 0 if time() >= $end;
		sleep(0.005);
	}
	return 1;
}

sub finish
{
	my ($pid) = @_;
	return unless $pid && $running{$pid};
	kill('KILL', $pid);
	waitpid($pid, 0);
	delete $running{$pid};
	return;
}

# Under the test's own tmp_check where there is one, so that logs of a failed test are found beside its own.
sub directory
{
	my ($name) = @_;
	no warnings 'once';
	my $parent = $PostgreSQL::Test::Utils::tmp_check;
	return short_directory() unless defined $parent && -d $parent;
	my $directory = File::Spec->rel2abs(File::Temp::tempdir("zaris_${name}_XXXX", DIR => $parent));
	push @kept_on_failure, $directory;
	return $directory;
}

# A short path, for unix sockets (their length is limited).
sub short_directory
{
	my $directory = File::Temp::tempdir('zaris_XXXX', TMPDIR => 1);
	push @scratch, $directory;
	return $directory;
}

# Ports that nobody listens on.  A reservation is an abstract unix socket: other tests see it, and the kernel drops it
# with this process.
sub free_ports
{
	my ($n) = @_;
	my @ports;
	for (1 .. 10000)
	{
		last if @ports == $n;
		my $port = LOWEST_PORT + int(rand(HIGHEST_PORT - LOWEST_PORT));
		next if $reserved{$port};
		my $reservation = IO::Socket::UNIX->new(Local => "\0zaris-test-port-$port", Listen => 1) or next;
		my $probe = IO::Socket::INET->new(
			LocalAddr => '127.0.0.1',
			LocalPort => $port,
			Proto => 'tcp',
			Listen => 1,
			ReuseAddr => 1) or next;
		close($probe);
		$reserved{$port} = $reservation;
		push @ports, $port;
	}
	croak "no free ports between " . LOWEST_PORT . " and " . HIGHEST_PORT unless @ports == $n;
	return @ports;
}

sub wait_until
{
	my ($what, $condition, $seconds) = @_;
	my $end = time() + ($seconds // 20);
	while (1)
	{
		my $value = eval { $condition->() };
		return $value if $value;
		croak "timed out waiting until $what" . ($@ ? ": $@" : '') if time() >= $end;
		sleep(0.002);
	}
}

END
{
	if ($$ == $owner)
	{
		my $exit_code = $?;
		finish($_) for keys %running;
		rmtree(\@scratch);
		rmtree(\@kept_on_failure)
		  if @kept_on_failure && $exit_code == 0 && PostgreSQL::Test::Utils::all_tests_passing();
		$? = $exit_code;
	}
}

1;
