//! Addresses that differ between loops, so that flows do not repeat.
//!
//! The hosts of a domain (all unicast IPv4 addresses, or the addresses of a prefix) have numbers
//! below a prime p and are shuffled once. In loop n, host x becomes a·x + k modulo p, with k = n
//! mod p and a = 1 + ⌊n / p⌋. Each map is a permutation, so distinct hosts stay distinct. For two
//! hosts x ≠ y, no two of the p (p - 1) maps have the same pair of values (the affine group of a
//! prime field is sharply two-transitive). So their flow repeats after p (p - 1) loops, 1.4 × 10¹⁹
//! for all of IPv4. The shuffle makes it improbable, 1 : p for two pairs of hosts, that
//! different flows with the same ports get equal addresses in the first p loops.

use super::prefix::Prefix;
use super::special::{is_special_v4, is_special_v6, key, mix};
use crate::error::{Error, Result};
use std::net::IpAddr;

/// The permuted domains of hosts.
#[derive(Clone, Debug)]
pub(super) struct Unique {
    domains: Vec<Domain>,
}

/// The permutations of one loop.
#[derive(Clone, Debug)]
pub(super) struct LoopPermutations {
    steps: Vec<Permutation>,
}

#[derive(Clone, Debug)]
struct Domain {
    space: AddressSpace,
    shuffle: Shuffle,
}

/// Numbers the addresses of a domain from 0.
#[derive(Clone, Copy, Debug)]
enum AddressSpace {
    /// All IPv4 unicast addresses.
    V4,
    /// The interface identifiers (the last 64 bits) of all IPv6 unicast addresses.
    V6,
    /// The addresses of a prefix; for IPv6, at most the last 64 bits.
    Prefix(Prefix),
}

#[derive(Clone, Debug)]
struct Permutation {
    space: AddressSpace,
    prime: u64,
    multiplier: u64,
    /// The inverse of the multiplier.
    divisor: u64,
    offset: u64,
}

impl Unique {
    /// Permutes all addresses, or only the addresses of the prefixes `within`.
    ///
    /// # Errors
    /// A prefix has fewer than two hosts, or includes special addresses.
    pub(super) fn new(seed: u64, within: &[Prefix]) -> Result<Self> {
        let mut spaces = Vec::new();
        for prefix in within {
            let (least, is_special) = match prefix.address() {
                IpAddr::V4(address) => (8, is_special_v4(address.to_bits())),
                IpAddr::V6(address) => (10, is_special_v6(address.to_bits())),
            };
            if prefix.length() < least || is_special || prefix.host_bits() == 0 {
                return Err(Error::new(format!(
                    "{prefix} cannot hold hosts that change from loop to loop; write a prefix of \
                     unicast addresses of at least {least} bits"
                )));
            }
            spaces.push(AddressSpace::Prefix(*prefix));
        }
        if spaces.is_empty() {
            spaces = vec![AddressSpace::V4, AddressSpace::V6];
        }
        let domain = |(index, space): (usize, AddressSpace)| Domain {
            space,
            shuffle: Shuffle::new(key(seed, 2 + index as u64), largest_prime(space.last())),
        };
        Ok(Self { domains: spaces.into_iter().enumerate().map(domain).collect() })
    }

    /// The smallest number of loops after which a flow between two hosts repeats.
    pub(super) fn period(&self) -> u64 {
        let period = |domain: &Domain| {
            let prime = domain.shuffle.limit;
            prime.saturating_mul(prime - 1)
        };
        self.domains.iter().map(period).min().unwrap_or(u64::MAX)
    }

    /// Shuffles an IPv4 address, the same way in all loops.
    pub(super) fn shuffle_v4(&self, address: u32, back: bool) -> u32 {
        let found = self.domains.iter().find_map(|it| Some((it, it.space.rank_v4(address)?)));
        found.map_or(address, |(domain, rank)| {
            domain.space.address_v4(address, domain.shuffle.apply(rank, back))
        })
    }

    /// Shuffles an IPv6 address.
    pub(super) fn shuffle_v6(&self, address: u128, back: bool) -> u128 {
        let found = self.domains.iter().find_map(|it| Some((it, it.space.rank_v6(address)?)));
        found.map_or(address, |(domain, rank)| {
            domain.space.address_v6(address, domain.shuffle.apply(rank, back))
        })
    }

    /// The permutations of loop `number`.
    pub(super) fn turn(&self, number: u64) -> LoopPermutations {
        let step = |domain: &Domain| {
            let prime = domain.shuffle.limit;
            let multiplier = match prime {
                2 => 1,
                _ => 1 + number / prime % (prime - 1),
            };
            let divisor = power(multiplier, prime - 2, prime);
            Permutation { space: domain.space, prime, multiplier, divisor, offset: number % prime }
        };
        LoopPermutations { steps: self.domains.iter().map(step).collect() }
    }
}

impl LoopPermutations {
    /// Permutes a shuffled IPv4 address.
    #[inline]
    pub(super) fn v4(&self, address: u32, back: bool) -> u32 {
        for step in &self.steps {
            if let Some(rank) = step.space.rank_v4(address) {
                return step.space.address_v4(address, step.apply(rank, back));
            }
        }
        address
    }

    /// Permutes a shuffled IPv6 address.
    #[inline]
    pub(super) fn v6(&self, address: u128, back: bool) -> u128 {
        for step in &self.steps {
            if let Some(rank) = step.space.rank_v6(address) {
                return step.space.address_v6(address, step.apply(rank, back));
            }
        }
        address
    }
}

impl Permutation {
    #[inline]
    fn apply(&self, rank: u64, back: bool) -> u64 {
        if rank >= self.prime {
            return rank;
        }
        if back {
            let rank = add(rank, self.prime - self.offset, self.prime);
            return multiply(rank, self.divisor, self.prime);
        }
        let rank = match self.multiplier {
            1 => rank,
            multiplier => multiply(rank, multiplier, self.prime),
        };
        add(rank, self.offset, self.prime)
    }
}

/// The number of IPv4 addresses from 1.0.0.0 to below 127.0.0.0.
const BELOW_LOOPBACK: u64 = 126 << 24;

impl AddressSpace {
    /// The highest address number.
    fn last(self) -> u64 {
        match self {
            Self::V4 => (222 << 24) - 1,
            Self::V6 => u64::MAX,
            Self::Prefix(prefix) => match prefix.host_bits() {
                64.. => u64::MAX,
                bits => (1 << bits) - 1,
            },
        }
    }

    #[inline]
    fn rank_v4(self, address: u32) -> Option<u64> {
        match self {
            Self::V4 if is_special_v4(address) => None,
            Self::V4 if address >> 24 < 127 => Some(u64::from(address) - (1 << 24)),
            Self::V4 => Some(u64::from(address) - (2 << 24)),
            Self::V6 => None,
            Self::Prefix(prefix) => prefix.host_of_v4(address).map(u64::from),
        }
    }

    #[inline]
    fn address_v4(self, old: u32, rank: u64) -> u32 {
        match self {
            Self::V4 if rank < BELOW_LOOPBACK => (rank + (1 << 24)) as u32,
            Self::V4 => (rank + (2 << 24)) as u32,
            Self::V6 => old,
            Self::Prefix(prefix) => prefix.with_host_v4(rank as u32),
        }
    }

    #[inline]
    fn rank_v6(self, address: u128) -> Option<u64> {
        match self {
            Self::V6 if is_special_v6(address) => None,
            Self::V6 => Some(address as u64),
            Self::V4 => None,
            Self::Prefix(prefix) => prefix.host_of_v6(address).map(|host| host as u64),
        }
    }

    #[inline]
    fn address_v6(self, old: u128, rank: u64) -> u128 {
        match self {
            Self::V4 => old,
            Self::V6 => old >> 64 << 64 | u128::from(rank),
            // The bits between the prefix and the last 64 stay the same.
            Self::Prefix(prefix) => match prefix.host_bits() {
                0..64 => prefix.with_host_v6(rank.into()),
                64.. => old >> 64 << 64 | u128::from(rank),
            },
        }
    }
}

/// A keyed permutation of the numbers below a limit: a Feistel network of four rounds over the next
/// even number of bits, repeated until the number is below the limit (cycle walking: Black,
/// Rogaway: "Ciphers with arbitrary finite domains", 2002).
#[derive(Clone, Debug)]
struct Shuffle {
    keys: [u64; 4],
    half: u32,
    limit: u64,
}

impl Shuffle {
    fn new(seed: u64, limit: u64) -> Self {
        let bits = u64::BITS - (limit - 1).leading_zeros();
        let half = bits.div_ceil(2).max(1);
        Self { keys: [0, 1, 2, 3].map(|index| key(seed, index)), half, limit }
    }

    /// Permutes a number. Numbers at or above the limit stay the same.
    fn apply(&self, number: u64, back: bool) -> u64 {
        if number >= self.limit {
            return number;
        }
        let mut number = self.pass(number, back);
        while number >= self.limit {
            number = self.pass(number, back);
        }
        number
    }

    fn pass(&self, number: u64, back: bool) -> u64 {
        let mask = u64::MAX >> (u64::BITS - self.half);
        let (mut left, mut right) = (number >> self.half, number & mask);
        if back {
            for key in self.keys.iter().rev() {
                (left, right) = (right ^ mix(key ^ left) & mask, left);
            }
        } else {
            for key in &self.keys {
                (left, right) = (right, left ^ mix(key ^ right) & mask);
            }
        }
        left << self.half | right
    }
}

/// `a + b` modulo `prime`, for `a` and `b` at most `prime`.
#[inline]
const fn add(a: u64, b: u64, prime: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    if carry || sum >= prime { sum.wrapping_sub(prime) } else { sum }
}

#[inline]
const fn multiply(a: u64, b: u64, modulus: u64) -> u64 {
    ((a as u128 * b as u128) % modulus as u128) as u64
}

const fn power(mut base: u64, mut exponent: u64, modulus: u64) -> u64 {
    let mut result = 1 % modulus;
    base %= modulus;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, base, modulus);
        }
        base = multiply(base, base, modulus);
        exponent >>= 1;
    }
    result
}

/// The largest prime that is at most `last + 1`; `last` is at least 1.
fn largest_prime(last: u64) -> u64 {
    let first = last.saturating_add(1);
    (2..=first).rev().find(|number| is_prime(*number)).unwrap_or(2)
}

/// The Miller-Rabin test, exact for 64 bits with these bases (Sorenson, Webster: "Strong
/// pseudoprimes to twelve prime bases", 2017).
fn is_prime(number: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if number < 2 {
        return false;
    }
    if let Some(base) = BASES.into_iter().find(|base| number.is_multiple_of(*base)) {
        return number == base;
    }
    let twos = (number - 1).trailing_zeros();
    let odd = (number - 1) >> twos;
    BASES.into_iter().all(|base| {
        let mut power = power(base, odd, number);
        if power == 1 {
            return true;
        }
        for _ in 0..twos {
            if power == number - 1 {
                return true;
            }
            power = multiply(power, power, number);
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn mapped(unique: &Unique, address: u32, number: u64) -> u32 {
        unique.turn(number).v4(unique.shuffle_v4(address, false), false)
    }

    #[test]
    fn primes_are_found() {
        let primes: Vec<_> = (0..60).filter(|n| is_prime(*n)).collect();
        assert_eq!(primes, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59]);
        assert_eq!(largest_prime(u64::MAX), u64::MAX - 58);
        assert_eq!(largest_prime(u32::MAX.into()), u64::from(u32::MAX) - 4);
        assert!(!is_prime(3_215_031_751) && !is_prime(u64::MAX));
    }

    /// Tests all maps of a small domain: each map is a permutation, and no pair of hosts repeats
    /// within the period.
    #[test]
    fn no_flow_comes_again_within_the_period() {
        let within = ["10.1.2.0/28".parse().unwrap()];
        let unique = Unique::new(7, &within).unwrap();
        assert_eq!(unique.period(), 13 * 12);
        let hosts: Vec<u32> = (0..13).map(|host| 0x0a01_0200 | host).collect();
        let original: HashSet<u32> =
            hosts.iter().map(|host| unique.shuffle_v4(*host, true)).collect();
        assert_eq!(original, hosts.iter().copied().collect());
        for (x, y) in hosts.iter().flat_map(|x| hosts.iter().map(move |y| (*x, *y))) {
            let pairs: HashSet<_> = (0..unique.period())
                .map(|number| (mapped(&unique, x, number), mapped(&unique, y, number)))
                .collect();
            assert_eq!(pairs.len(), if x == y { 13 } else { 156 });
        }
    }

    #[test]
    fn prefixes_without_hosts_are_refused() {
        for wrong in
            ["224.0.0.0/8", "10.0.0.0/7", "10.0.0.1/32", "fe80::/10", "::/0", "127.0.0.0/8"]
        {
            assert!(Unique::new(0, &[wrong.parse().unwrap()]).is_err(), "{wrong}");
        }
    }

    proptest! {
        /// The loop number can be computed from the values of two hosts, even above 2^32. So no two
        /// loops share these values.
        #[test]
        fn a_loop_is_known_by_two_hosts(
            seed: u64, x: u32, y: u32, numbers in (0_u64..1 << 33, 0_u64..1 << 33),
        ) {
            let unique = Unique::new(seed, &[]).unwrap();
            let prime = unique.domains[0].shuffle.limit;
            let rank = |it: u32| AddressSpace::V4.rank_v4(it).filter(|rank| *rank < prime);
            prop_assume!(x != y && numbers.0 != numbers.1);
            prop_assume!(rank(x).is_some() && rank(y).is_some());
            let pair = |number| (mapped(&unique, x, number), mapped(&unique, y, number));
            prop_assert_ne!(pair(numbers.0), pair(numbers.1));
            // The difference of the values is a (x - y), and k = f(x) - a x.
            let (u, v) = pair(numbers.0);
            let [u, v] = [u, v].map(|it| rank(it).unwrap());
            let [x, y] = [x, y].map(|it| rank(unique.shuffle_v4(it, false)).unwrap());
            let minus = |a, b| add(a, prime - b, prime);
            let a = multiply(minus(u, v), power(minus(x, y), prime - 2, prime), prime);
            let k = minus(u, multiply(a, x, prime));
            prop_assert_eq!((a - 1) * prime + k, numbers.0);
        }

        #[test]
        fn maps_invert(seed: u64, v4: u32, v6: u128, number: u64) {
            let unique = Unique::new(seed, &[]).unwrap();
            let turn = unique.turn(number);
            let there = mapped(&unique, v4, number);
            prop_assert_eq!(unique.shuffle_v4(turn.v4(there, true), true), v4);
            prop_assert_eq!(is_special_v4(there), is_special_v4(v4));
            let there = turn.v6(unique.shuffle_v6(v6, false), false);
            prop_assert_eq!(unique.shuffle_v6(turn.v6(there, true), true), v6);
            prop_assert_eq!(there >> 64, v6 >> 64);
        }
    }
}
