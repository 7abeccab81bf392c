"""How records, states and attempts lie in bytes, as scripts/parts/records.lua has it too: their fixed parts, flags and letters."""

import struct

from pool.jobs.job import Outcome

HEAD = struct.Struct(">Bdd")
TIMES = struct.Struct(">dd")
BODY = struct.Struct(">BHHHHH")
HEAD_AND_BODY = struct.Struct(">BddBHHHHH")  # where no times stand between them
FIRST_CLAIM = struct.Struct(">Bd16s")  # settled, time of the claim, id: then the record
FIRST_CLAIM_AND_BODY = struct.Struct(">Bd16sBddBHHHHH")
STATE = struct.Struct(">BBIHHHHdddddH")
LIMIT = struct.Struct(">ddd")
ATTEMPT = struct.Struct(">HddB")
SIZE, SHORT, DOUBLE = struct.Struct(">I"), struct.Struct(">H"), struct.Struct(">d")
HAS_TIMES, HAS_EXTRAS = 1, 2
CANCEL, ALONE, PLAIN = 1, 2, 8
IS_LOCAL = 0xFFFF  # as length of the owner
WAITING, RUNNING = ord("w"), ord("r")

OUTCOMES = {
    "c": Outcome.COMPLETED,
    "f": Outcome.FAILED,
    "r": Outcome.RETRIED,
    "b": Outcome.RETURNED,
    "x": Outcome.CANCELLED,
    "l": Outcome.LOST,
}
