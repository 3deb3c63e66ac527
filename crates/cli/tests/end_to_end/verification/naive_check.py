"""Replays an ordered CSV export with values, as simply as can be, and shares no code with the
command: a dictionary has what is known of each byte. Prints how many bytes were compared and how
many of them were not what the last write left."""

import csv
import sys

known = {}
unfinished = []  # writes of the last instruction whose values may follow
doubtful = {}  # by thread in a system call: mismatches that the call may explain
compared = wrong = 0


def forget(address, size):
    if size > len(known):
        for byte in [byte for byte in known if address <= byte < address + size]:
            del known[byte]
    else:
        for byte in range(address, address + size):
            known.pop(byte, None)


for row in csv.DictReader(sys.stdin):
    kind, thread = row["kind"], row["thread"]
    address = int(row["address"], 16) if row["address"] else 0
    size = int(row["size"]) if row["size"] else 0
    if not kind.endswith("_value") and row["first"] != "0":
        for written in unfinished:
            forget(*written)
        unfinished = []
    if kind == "write":
        unfinished.append((address, size))
    elif kind == "write_value":
        for offset, byte in enumerate(bytes.fromhex(row["name"])):
            known[address + offset] = byte
        if (address, size) in unfinished:
            unfinished.remove((address, size))
    elif kind == "read_value":
        for offset, byte in enumerate(bytes.fromhex(row["name"])):
            before = known.setdefault(address + offset, byte)
            compared += 1
            if before != byte:
                wrong += 1
                known[address + offset] = byte
                for mismatches in doubtful.values():
                    mismatches.append(address + offset)
    elif kind == "system_call_entry":
        doubtful[thread] = []
    elif kind == "system_call_exit":
        doubtful.pop(thread, None)
    elif kind == "system_memory" and row["name"] == "write":
        explained = [
            byte for byte in doubtful.get(thread, []) if address <= byte < address + size
        ]
        wrong -= len(explained)
        forget(address, size)
    elif kind == "sync" and row["name"] == "thread_exit":
        forget(address, 4)  # the kernel clears the word that joiners wait for

print(compared, wrong)
