# Zaris::Session: one psql that stays, and tells what came of each statement.
#
#	my $session = $pg->session;							# dbname => ..., user => ...
#	my $result = $session->run('SELECT 1');				# waits; $session->run($sql, $seconds)
#		$result->{out}			rows, unaligned, fields separated by |
#		$result->{sqlstate}		'00000' when all went well, else the first error's
#		$result->{message}, {detail}, {hint}, {context}
#		$result->{stderr}		all that psql printed there: notices too
#		$result->{seconds}		how long it took
#		$result->{lost}			the connection is gone
#	$session->start('SELECT pg_sleep(10)');				# does not wait ...
#	$session->is_done; my $result = $session->finish;	# ... until now
#	$session->pid										# the backend's
#	$session->close
package Zaris::Session;

use strict;
use warnings;

use Carp;
use IO::Handle;
use IO::Select;
use Time::HiRes qw(sleep time);
use Zaris::Process;

my $count = 0;

# connection: a conninfo string
sub new
{
	my ($class, $connection) = @_;
	my $self = bless { number => ++$count, statements => 0, buffer => '' }, $class;
	$self->{errors} = Zaris::Process::short_directory() . '/stderr';
	pipe(my $input, $self->{in}) or croak "could not make a pipe: $!";
	pipe($self->{out}, my $output) or croak "could not make a pipe: $!";
	$self->{psql} = Zaris::Process::child(
		sub {
			open(STDIN, '<&', $input);
			open(STDOUT, '>&', $output);
			open(STDERR, '>', $self->{errors});
			exec('psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-v', 'ON_ERROR_STOP=0', '-d', $connection)
			  or die "could not run psql: $!";
		});
	$self->{in}->autoflush(1);
	return $self;
}

sub run
{
	my ($self, $sql, $seconds) = @_;
	$self->start($sql);
	return $self->finish($seconds);
}

sub start
{
	my ($self, $sql) = @_;
	croak 'a statement is running already' if $self->{mark};
	$self->{mark} = sprintf('<<end %d.%d>>', $self->{number}, ++$self->{statements});
	$self->{stderr_at} = -s $self->{errors} // 0;
	$self->{began} = time();
	my $end = $sql =~ /;\s*\z/ || $sql =~ /^\\[^\n]*\n?\z/m ? '' : ';';
	$self->{in}->print("$sql$end\n\\echo '$self->{mark}'\n");
	return;
}

sub is_done
{
	my ($self) = @_;
	$self->_read(0);
	return $self->{closed} || $self->{buffer} =~ /\Q$self->{mark}\E\n\z/;
}

sub finish
{
	my ($self, $seconds) = @_;
	my $end = time() + ($seconds // 120);
	until ($self->is_done)
	{
		croak "no answer from psql within $seconds seconds" if time() >= $end;
		$self->_read($end - time());
	}
	my %result = (
		seconds => time() - $self->{began},
		lost => $self->{closed} // 0,
		out => $self->{buffer} =~ s/\n?\Q$self->{mark}\E\n\z//r,
		stderr => $self->_errors);
	my ($sqlstate, $message) = $result{stderr} =~ /(?:ERROR|FATAL|PANIC): +(\w{5}): (.*)/;
	@result{qw(sqlstate message)} = ($sqlstate // ($result{lost} ? '' : '00000'), $message // '');
	$result{ lc($_) } = $result{stderr} =~ /^$_: +(.*)/m ? $1 : '' for qw(DETAIL HINT CONTEXT);
	@$self{qw(mark buffer)} = (undef, '');
	return \%result;
}

sub pid
{
	my ($self) = @_;
	return $self->{backend} //= $self->run('SELECT pg_backend_pid()')->{out};
}

sub close
{
	my ($self) = @_;
	$self->{in}->print("\\q\n") unless $self->{closed};
	close($self->{in}) if $self->{in};
	Zaris::Process::finish($self->{psql}) unless Zaris::Process::reap($self->{psql}, 2);
	return;
}

sub _read
{
	my ($self, $seconds) = @_;
	while (!$self->{closed} && IO::Select->new($self->{out})->can_read($seconds))
	{
		my $n = sysread($self->{out}, $self->{buffer}, 65536, length $self->{buffer});
		$self->{closed} = 1 unless $n;
		return if $self->{closed};
		$seconds = 0;
	}
	return;
}

sub _errors
{
	my ($self) = @_;
	open(my $file, '<', $self->{errors}) or return '';
	seek($file, $self->{stderr_at}, 0);
	local $/;
	return <$file> // '';
}

1;
