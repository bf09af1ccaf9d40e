# Zaris::Resp: a small blocking RESP2 client for the tests.
#
# redis-cli is no good in scripts: without a terminal it prints an empty line for nil and one after each error, so
# that answers cannot be told apart.  Here a reply is a Perl value:
#
#	bulk or simple string -> string (bytes)		integer -> number		nil -> undef
#	array -> array reference					error -> a Zaris::Resp::Error, which reads as its text
#
#	my $resp = Zaris::Resp->new(port => 7000);				# or path => '/some/socket'; timeout => seconds
#	my $reply = $resp->call('GET', 'foo');					# dies only if the connection fails
#	my $value = $resp->ask('GET', 'foo');					# dies on an error reply as well
#	my @replies = $resp->pipeline([ 'GET', 'a' ], [ 'GET', 'b' ]);
#
# Zaris::Resp::slot($key) is the hash slot of a key.
package Zaris::Resp;

use strict;
use warnings;

use Carp;
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use Time::HiRes qw(time);

sub new
{
	my ($class, %option) = @_;
	my $self = bless { timeout => $option{timeout} // 10, buffer => '' }, $class;
	$self->{name} = $option{path} // "127.0.0.1:$option{port}";
	$self->{socket} =
	  defined $option{path}
	  ? IO::Socket::UNIX->new(Peer => $option{path})
	  : IO::Socket::INET->new(
		PeerAddr => '127.0.0.1',
		PeerPort => $option{port},
		Proto => 'tcp',
		Timeout => $self->{timeout});
	croak "could not connect to $self->{name}: $!" unless $self->{socket};
	$self->{socket}->blocking(0);
	$self->ask('AUTH', @{ $option{auth} }) if $option{auth};
	return $self;
}

sub call
{
	my ($self, @command) = @_;
	return ($self->pipeline(\@command))[0];
}

sub ask
{
	my ($self, @command) = @_;
	my $reply = $self->call(@command);
	croak "$self->{name}: $command[0]: $reply" if is_error($reply);
	return $reply;
}

sub pipeline
{
	my ($self, @commands) = @_;
	my $deadline = time() + $self->{timeout};
	$self->send_bytes(join('', map { encode(@$_) } @commands), $deadline);
	return map { $self->reply($deadline) } @commands;
}

sub is_error
{
	return ref $_[0] && ref $_[0] eq 'Zaris::Resp::Error';
}

# A command as the array of bulk strings that every server takes.
sub encode
{
	my @words = map { my $word = "$_"; utf8::encode($word) if utf8::is_utf8($word); $word } @_;
	return '*' . @words . "\r\n" . join('', map { '$' . length($_) . "\r\n$_\r\n" } @words);
}

# Bytes as they are, for tests of half commands and the like.
sub send_bytes
{
	my ($self, $bytes, $deadline) = @_;
	$deadline //= time() + $self->{timeout};
	my $select = IO::Select->new($self->{socket});
	while (length $bytes)
	{
		my $left = $deadline - time();
		$! = 0;
		if ($left <= 0 || !$select->can_write($left))
		{
			next if $left > 0 && $!{EINTR};
			croak "$self->{name}: timed out while sending";
		}
		my $n = syswrite($self->{socket}, $bytes);
		croak "$self->{name}: $!" if !defined $n && !$!{EAGAIN};
		substr($bytes, 0, $n // 0) = '';
	}
	return;
}

# One reply as the bytes that came.
sub raw_reply
{
	my ($self, $deadline) = @_;
	$deadline //= time() + $self->{timeout};
	my $line = $self->_line($deadline);
	my ($kind, $rest) = (substr($line, 0, 1), substr($line, 1));
	return "$line\r\n" if $kind !~ /[\$*]/ || $rest < 0;
	return "$line\r\n" . $self->_bytes($rest + 2, $deadline) if $kind eq '$';
	return join('', "$line\r\n", map { $self->raw_reply($deadline) } 1 .. $rest);
}

# One reply.
sub reply
{
	my ($self, $deadline) = @_;
	$deadline //= time() + $self->{timeout};
	my $line = $self->_line($deadline);
	my ($kind, $rest) = (substr($line, 0, 1), substr($line, 1));
	return $rest if $kind eq '+';
	return $rest + 0 if $kind eq ':';
	return bless { text => $rest }, 'Zaris::Resp::Error' if $kind eq '-';
	croak "$self->{name}: unexpected reply: $line" unless $kind eq '$' || $kind eq '*';
	return undef if $rest < 0;
	return [ map { $self->reply($deadline) } 1 .. $rest ] if $kind eq '*';
	my $bulk = $self->_bytes($rest + 2, $deadline);
	return substr($bulk, 0, $rest);
}

sub _line
{
	my ($self, $deadline) = @_;
	my $end;
	$self->_more($deadline) while ($end = index($self->{buffer}, "\r\n")) < 0;
	my $line = substr($self->{buffer}, 0, $end);
	substr($self->{buffer}, 0, $end + 2) = '';
	return $line;
}

sub _bytes
{
	my ($self, $length, $deadline) = @_;
	$self->_more($deadline) while length $self->{buffer} < $length;
	return substr($self->{buffer}, 0, $length, '');
}

sub _more
{
	my ($self, $deadline) = @_;
	my $left = $deadline - time();
	$! = 0;
	if ($left <= 0 || !IO::Select->new($self->{socket})->can_read($left))
	{
		return if $left > 0 && $!{EINTR};    # a signal, not the end of the time
		croak "$self->{name}: timed out waiting for a reply";
	}
	my $n = sysread($self->{socket}, $self->{buffer}, 65536, length $self->{buffer});
	return if !defined $n && $!{EAGAIN};
	croak "$self->{name}: " . (defined $n ? 'connection closed' : $!) unless $n;
	return;
}

# CRC-16/XMODEM of the hash tag, or of the whole key when it has none.
sub slot
{
	my ($key) = @_;
	my $open = index($key, '{');
	if ($open >= 0)
	{
		my $close = index($key, '}', $open + 1);
		$key = substr($key, $open + 1, $close - $open - 1) if $close > $open + 1;
	}
	my $crc = 0;
	for my $byte (unpack('C*', $key))
	{
		$crc ^= $byte << 8;
		$crc = ($crc & 0x8000 ? ($crc << 1) ^ 0x1021 : $crc << 1) & 0xffff for 1 .. 8;
	}
	return $crc & 16383;
}

package Zaris::Resp::Error;

use overload '""' => sub { $_[0]{text} }, fallback => 1;

1;
