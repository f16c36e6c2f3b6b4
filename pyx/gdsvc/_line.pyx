# cython: nonecheck=True
"""What runs on a connection for every exchange: a request goes out, its reply comes in, whoever waits for it is woken.

How a connection comes to be, why it ends and what that means is decided by the subclass.
"""

from gdsvc._reply cimport ReplyReader


cdef class Line:
    """Has the methods of an asyncio.Protocol that are called for data; `transport` is None until there is one.

    A subclass has `deciphered(data)`, called with what came where there is a `cipher`, `superfluous()`, called where
    more came than the reply in hand, and `refused(fault)`, called where what came is no reply.
    `new_future` makes futures of the event loop. `silence` is told when an exchange begins and ends and when something
    was heard, or is None. `held_bytes` of a body that nobody takes pause the transport.
    """

    def __init__(self, ReplyReader reply not None, new_future, silence, Py_ssize_t held_bytes):
        self.reply = reply
        self.new_future = new_future
        self.silence = silence
        self.held_bytes = held_bytes

    # ----------------------------------------------------------------------------------- exchanges

    cdef bint can_go_on(self) except *:
        return not self.is_lost and self.transport is not None and not self.transport.is_closing()

    @property
    def is_usable(self) -> bool:
        """Whether another exchange may begin on it."""
        return self.can_go_on()

    cdef begin(self, bytes message, bint head_only):
        """Takes up an exchange and sends `message`, a request or its beginning. Call `finish` or `abort` at its end."""
        self.is_busy = True
        self.failure = None
        self.written_before = self.written
        self.reply.begin_anew(head_only)
        if self.silence is not None:
            self.silence.start()
        self.put(message)

    cdef bint finish(self) except *:
        """Ends an exchange whose reply was read to its end; says whether the connection may carry another."""
        self.is_busy = False
        if self.silence is not None:
            self.silence.stop()
        self.served += 1
        if not self.reply.keep_alive or not self.can_go_on():
            return False
        return not self.transport.get_write_buffer_size()  # else the reply came before its request

    def abort(self) -> None:
        """Closes at once, whatever is still to be sent or read."""
        self.is_busy = False
        if self.silence is not None:
            self.silence.stop()
        if self.transport is not None:
            self.transport.abort()

    cpdef changed(self):
        """A future that is done when more of the reply has come, or none will. One at a time."""
        self.future = future = self.new_future()
        return future

    def wake(self) -> None:
        """Says that to who waits, and to who waits for `permission`."""
        future = self.future
        if future is not None:
            self.future = None
            if not future.done():
                future.set_result(None)
        if self.permission is not None and not self.permission.done():
            self.permission.set_result(None)

    # ------------------------------------------------------------------------------------- reading

    def data_received(self, bytes data not None) -> None:
        """What came from the socket."""
        if self.cipher is None:
            self.receive(data)
        else:
            self.deciphered(data)

    def receive(self, bytes data not None) -> None:
        """What came, in plain."""
        cdef ReplyReader reply = self.reply
        if not self.is_busy:
            self.abort()  # nobody has asked
            return
        if reply.complete:
            self.superfluous()
            return
        if self.silence is not None:
            self.silence.heard()
        try:
            reply.feed(data)
        except reply.malformed as fault:
            self.refused(fault)
            return
        if reply.held >= self.held_bytes and not reply.complete and self.transport is not None:
            self.is_paused = True
            self.transport.pause_reading()
        if reply.status or reply.continued:
            self.wake()

    cdef resume(self):
        """The reader has taken what was held."""
        if self.is_paused:
            self.is_paused = False
            if self.silence is not None:
                self.silence.heard()
            if self.can_go_on():
                self.transport.resume_reading()

    # ------------------------------------------------------------------------------------- writing

    def write(self, bytes data not None) -> None:
        """Sends, or keeps to send."""
        self.put(data)

    def write_sealed(self, bytes data not None) -> None:
        """The same, of what the cipher has made already."""
        if self.can_go_on():
            self.written += len(data)
            self.transport.write(data)

    cdef put(self, bytes data):
        if self.transport is None or self.transport.is_closing():
            return  # what there is to say about it is said to the reader of the reply
        if self.cipher is not None:
            data = self.cipher.seal(data)
        self.written += len(data)
        self.transport.write(data)
