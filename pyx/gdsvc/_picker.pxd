from cpython.ref cimport PyObject
from libc.stdint cimport int64_t

from gdsvc._in_flight cimport Frontend


cdef struct Slot:  # a frontend's place in its pool's rotation
    PyObject* pair  # (pool, frontend), borrowed from _Rota.pairs
    bint* aside  # whether the frontend is passed over


cdef struct Seat:  # a pool's place in the rota
    Slot* next  # of its next turn
    Slot* first  # of its slots
    Slot* end  # behind its last slot
    int64_t last  # number of the pick that was its last turn when this rota began
    bint served  # False where `last` is only a supposition
    Py_ssize_t rank  # decides where `last` is equal
    Py_ssize_t pool  # its index in _Rota.known


cdef class _Rota:
    cdef Seat* turn  # whose turn it is; NULL where nothing is selectable
    cdef Seat* end  # behind the last selectable seat
    cdef Seat* seats  # the selectable ones in the order of their turns, then the remembered ones
    cdef int64_t rounds  # how often `turn` came back to the first seat
    cdef int64_t picks  # made before this rota began
    cdef int64_t reach  # picks in a round, in the largest rota of the last round
    cdef Py_ssize_t count  # selectable pools
    cdef tuple known  # pool identities: the selectable ones as given, then the remembered ones
    cdef tuple frontends  # per selectable pool, a tuple
    cdef tuple pairs  # (pool, frontend), flat, in the order of `known`
    cdef Slot* slots  # one for each of them

    cdef int fill(self, list given) except -1
    cdef list match_pools(self, _Rota base)
    cdef list match_pairs(self, _Rota base, list moved)
    cdef int take_seats(self) except -1
    cdef int follow(self, _Rota base, list moved, list arrivals) except -1
    cdef void carry_turn(self, _Rota base, Seat* old, Seat* new) noexcept
    cdef int carry_cursor(self, _Rota base, Seat* old, Seat* new, list arrivals) except -1
    cdef int64_t last_turn(self, Seat* seat) noexcept
    cdef int64_t picks_so_far(self) noexcept
    cdef Seat* usable(self) noexcept


cdef class RoundRobin:
    cdef _Rota rota


cdef struct Place:  # of a pool among those compared
    PyObject* cell  # borrowed from _Field.given
    PyObject* frontends  # likewise
    int64_t last  # number of the pick that was its last turn


cdef class _Field:
    cdef Place* places
    cdef Py_ssize_t count
    cdef Py_ssize_t begin  # where the next window begins
    cdef tuple given

    cdef int fill(self, list given) except -1
    cdef Place* least(self, int64_t picks) noexcept


cdef class LeastInFlight:
    cdef _Field field
    cdef int64_t picks
