"""Hosts of members: those that the register takes and those that it refuses, also in SQL."""

from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv6Address

NEVER_CALLED = [
    *("169.254.169.254", "2852039166", "0xA9FEA9FE", "0xa9.0xfe.0xa9fe", "169.254.43518"),
    *(
        "169.254.1",
        "0251.0376.0251.0376",
        "0251.254.0xa9fe",
        "0000000251.254.1",
        "169.254.169.254.",
    ),
    *("00000000000251.254.1.1", "0x00000000a9.254.1.1", "0", "0x0", "0.0.0.0", "224.0.0.1"),
    *(
        "239.255.255.250",
        "100.100.100.200",
        "0x646464c8",
        "１６９.254.169.254",
        "169。254。169。254",
    ),
    *("[fe80::1]", "[FE80::1]", "[febf::1]", "[fd00:ec2::254]", "[fd00:0ec2:0:0::0254]", "[::]"),
    *("[ff02::1]", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::ffff:224.0.0.1]"),
    *("[::ffff:0.0.0.0]", "[::ffff:100.100.100.200]", "[::169.254.169.254]", "[::a9fe:1]"),
    *("[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a9fe:a9fe]", "[::ffff:0:a9fe:a9fe]"),
    *("[2002:a9fe:a9fe::]", "[2001:0:a9fe:a9fe::1]", "[2001::5601:5601]"),
    *("[fd00::5efe:169.254.169.254]", "[2001:4860::200:5efe:a9fe:a9fe]"),
]
"""Link-local, multicast and unspecified addresses and those of clouds' metadata, in many forms."""

NO_HOSTS = [
    *("", "a b", "a\\b", "a%41", "a|b", "a?b", "a#b", "a@b", "[a", "a]", "a[::1]", "[]", "[:]"),
    *("::1", "[1.2.3.4]", "[::1%eth0]", "[fe80::1%25eth0]", "[v1.a]", "[1::2::3]", "[12345::]"),
    *(
        "[::ffff:1.2.3]",
        "[::ffff:1.2.3.256]",
        "a\u00a0b",
        "a\u200bb",
        "a\u00adb",
        "a\u3000b",
        "a℀b",
    ),
    *("a？b", "ａ＠ｂ"),
]

HOSTS = [
    *(
        "a",
        "worker.example.com",
        "worker.example.com.",
        "my_worker-1",
        "münchen.example",
        "日本.example",
    ),
    *("127.0.0.1", "2130706433", "0x7f.1", "10.0.0.7", "192.168.1.1", "100.64.0.1", "8.8.8.8"),
    *("168.254.1.1", "169.253.1.1", "169.254.1.example", "999.1.1.1", "1.2.3.4.5", "4294967296"),
    *(
        "0169.254.1.1",
        "0251.256.1.1",
        "0899.1",
        "0xg9.1",
        "0x",
        "1..2",
        "[::1]",
        "[fd00::1]",
        "[fd00:ec2::253]",
    ),
    *("[2001:db8::1]", "[::ffff:10.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fec0::1]"),
    *("[1:2:3:4:5:6:7:8]", "[1:2:3:4:5:6:7::]", "[fe00::1]"),
]


def generated(count: int, seed: int) -> list[str]:
    """Hosts like those above, in many ways of writing; most of them near a limit of the rule."""
    chance = random.Random(seed)
    cases = [*NEVER_CALLED, *NO_HOSTS, *HOSTS]
    makers = (_number, _parts, _ipv6, lambda one: _altered(one, one.choice(cases)))
    return [chance.choice(makers)(chance) for _ in range(count)]


def _ipv4(chance: random.Random) -> int:
    starts = ("169.254.0.0", "169.253.255.255", "0.0.0.0", "224.0.0.0", "100.100.100.200")
    ends = ("169.255.0.0", "223.255.255.255", "239.255.255.255", "240.0.0.0", "10.1.2.3")
    near = int(IPv4Address(chance.choice(starts + ends))) + chance.randint(-2, 2)
    return (near + chance.choice((0, 0, chance.randint(0, 0xFFFF)))) & 0xFFFFFFFF


def _written(chance: random.Random, number: int) -> str:
    zeros = "0" * chance.choice((0, 0, 1, 12))
    return chance.choice(
        (str(number), f"0{zeros}{number:o}", f"0x{zeros}{number:x}", f"0X{number:X}")
    )


def _number(chance: random.Random) -> str:
    return _written(chance, _ipv4(chance) + chance.choice((0, 0, 0, 2**32)))


def _parts(chance: random.Random) -> str:
    octets = list(_ipv4(chance).to_bytes(4, "big"))
    first = octets[: chance.randint(1, 3)]
    rest = int.from_bytes(octets[len(first) :], "big") + chance.choice((0, 0, 0, 2**24))
    return ".".join(_written(chance, one) for one in (*first, rest)) + chance.choice(
        ("", "", ".", ".a")
    )


def _ipv6(chance: random.Random) -> str:
    inner = _ipv4(chance)
    bases = ("::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "64:ff9b:1:2::", "fd00::5efe:0:0")
    embedding = [int(IPv6Address(base)) + inner for base in (*bases, "2001:db8::200:5efe:0:0")]
    embedding.append(int(IPv6Address("2002::1")) + (inner << 80))
    embedding.append(int(IPv6Address("2001::")) + (inner << 64) + 5)
    embedding.append(int(IPv6Address("2001::")) + (inner ^ 0xFFFFFFFF))
    plain = [int(IPv6Address(one)) for one in ("fe80::", "fec0::", "ff00::", "fd00:ec2::254", "::")]
    address = IPv6Address(max(0, chance.choice(embedding + plain) + chance.randint(-1, 1)))
    return f"[{chance.choice((address.compressed, address.exploded.upper()))}]"


def _altered(chance: random.Random, host: str) -> str:
    signs = ".:[]%/\\@?#0189afxX-_ é。１\u200b\u00a0"
    place = chance.randint(0, len(host))
    return host[:place] + chance.choice(signs) + host[place + chance.randint(0, 1) :]
