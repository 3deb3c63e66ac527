"""What interpreted programs spend their time on, in miniature: arithmetic on floats,
lists, method calls, generators, strings, regular expressions, JSON, pickling, sorting and
dictionaries. Argument: number of rounds. Prints a checksum of everything computed."""

import hashlib
import json
import math
import pickle
import re
import sys


def planets(steps):
    bodies = [[math.cos(i), math.sin(i), 0.1 * i, 0.0, 0.01 * i, 0.0, 1.0 / (i + 1)] for i in range(5)]
    for _ in range(steps):
        for i, a in enumerate(bodies):
            for b in bodies[i + 1:]:
                dx, dy, dz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
                pull = 0.001 / (dx * dx + dy * dy + dz * dz + 0.01) ** 1.5
                for axis, d in enumerate((dx, dy, dz)):
                    a[3 + axis] -= d * b[6] * pull
                    b[3 + axis] += d * a[6] * pull
        for body in bodies:
            for axis in range(3):
                body[axis] += 0.001 * body[3 + axis]
    return sum(sum(body) for body in bodies)


def flips(size):
    """The most reversals of a prefix that any permutation needs to bring 0 to the front."""
    def permutations(items):
        if len(items) <= 1:
            yield items
            return
        for i, item in enumerate(items):
            for rest in permutations(items[:i] + items[i + 1:]):
                yield [item] + rest

    most = 0
    for permutation in permutations(list(range(size))):
        count = 0
        while permutation[0]:
            end = permutation[0] + 1
            permutation[:end] = permutation[:end][::-1]
            count += 1
        most = max(most, count)
    return most


class Account:
    def __init__(self, owner):
        self.owner, self.balance, self.history = owner, 0, []

    def deposit(self, amount):
        self.balance += amount
        self.history.append(amount)
        return self


class Savings(Account):
    @property
    def interest(self):
        return self.balance * 3 // 100

    def deposit(self, amount):
        return super().deposit(amount + 1)


def accounts(count):
    everyone = [(Savings if i % 3 else Account)(f"owner{i}") for i in range(50)]
    for i in range(count):
        everyone[i * 7 % 50].deposit(i % 100)
    return sum(a.balance + getattr(a, "interest", 0) for a in everyone)


def documents(count):
    rows = [{"id": i, "name": f"näme {i}", "tags": [f"t{j}" for j in range(i % 5)], "x": i / 7} for i in range(count)]
    text = json.dumps(rows, sort_keys=True)
    again = pickle.loads(pickle.dumps(json.loads(text)))
    return hashlib.sha256(repr(again).encode()).hexdigest()


def words(count):
    text = " ".join(f"{i * 2654435761 % 99991:05d}-{'abcdefgh'[i % 8] * (i % 6 + 1)}" for i in range(count))
    found = re.findall(r"(\d{2})(\d+)-(a+|[b-e]{2,4}|g\b)", text)
    tally = {}
    for head, _, tail in found:
        tally[head + tail] = tally.get(head + tail, 0) + 1
    changed = re.sub(r"\d+", lambda match: str(int(match.group()) % 97), text).upper().split()
    return sorted(tally.items(), key=lambda pair: (-pair[1], pair[0]))[:5], len(set(changed))


def queens(size):
    def place(row, columns, rising, falling):
        if row == size:
            yield 1
            return
        for column in range(size):
            if column not in columns and row + column not in rising and row - column not in falling:
                yield from place(row + 1, columns | {column}, rising | {row + column}, falling | {row - column})

    return sum(place(0, frozenset(), frozenset(), frozenset()))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    digest = hashlib.sha256()
    for turn in range(rounds):
        results = (planets(400 + turn % 3), flips(6), accounts(8000 + turn % 5), documents(300 + turn % 7),
                   words(4000 + turn % 11), queens(6))
        digest.update(repr(results).encode())
    print("python_mix", rounds, digest.hexdigest())


main()
