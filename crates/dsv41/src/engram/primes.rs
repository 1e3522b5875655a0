//! The bucket counts of the hash heads: consecutive primes, none used twice.

/// Witnesses that make the Miller-Rabin test exact for every 64-bit number.
const WITNESSES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];

/// Whether `n` is prime (exact for all of `u64`).
pub fn is_prime(n: u64) -> bool {
    if n < 2 {
        return false;
    }
    if let Some(p) = WITNESSES.into_iter().find(|p| n.is_multiple_of(*p)) {
        return n == p;
    }
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    WITNESSES.into_iter().all(|a| {
        let mut x = pow_mod(a, odd, n);
        if x == 1 || x == n - 1 {
            return true;
        }
        for _ in 1..twos {
            x = mul_mod(x, x, n);
            if x == n - 1 {
                return true;
            }
        }
        false
    })
}

/// Bucket counts `[layer][order][head]`, orders being the n-gram lengths `2..=ngram`: consecutive primes from
/// `start` on, each used once. The rows of a layer's table are the sum of its primes.
///
/// The official code restarts its search at each order and skips the primes already taken, which is the same.
pub fn bucket_primes(layers: usize, ngram: usize, heads: usize, start: u64) -> Vec<Vec<Vec<u64>>> {
    let mut primes = (start..=u64::MAX).filter(|n| is_prime(*n));
    let mut order = || primes.by_ref().take(heads).collect();
    (0..layers).map(|_| (2..=ngram).map(|_| order()).collect()).collect()
}

fn mul_mod(a: u64, b: u64, n: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(n)) as u64
}

fn pow_mod(mut base: u64, mut exponent: u64, n: u64) -> u64 {
    let mut power = 1;
    base %= n;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = mul_mod(power, base, n);
        }
        base = mul_mod(base, base, n);
        exponent >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primality_matches_trial_division() {
        for n in 0..20_000u64 {
            let divisible = (2..n).take_while(|d| d * d <= n).any(|d| n % d == 0);
            assert_eq!(is_prime(n), n >= 2 && !divisible, "{n}");
        }
    }

    #[test]
    fn strong_pseudoprimes_and_large_primes_are_told_apart() {
        assert!(!is_prime(3_215_031_751));
        assert!(!is_prime(3_825_123_056_546_413_051));
        assert!(is_prime(18_446_744_073_709_551_557));
        assert!(!is_prime(u64::MAX));
    }

    #[test]
    fn primes_of_the_released_tables_sum_to_their_row_counts() {
        let primes = bucket_primes(2, 4, 8, 16_000_000);
        assert_eq!(primes[0][0][0], 16_000_057);
        let rows = primes.iter().map(|layer| layer.iter().flatten().sum());
        assert_eq!(rows.collect::<Vec<u64>>(), [384_006_168, 384_016_682]);
    }

    #[test]
    fn no_prime_is_used_twice() {
        let primes = bucket_primes(2, 4, 2, 200);
        let all: Vec<u64> = primes.iter().flatten().flatten().copied().collect();
        assert!(all.is_sorted_by(|a, b| a < b));
        assert_eq!(all[..6].iter().sum::<u64>(), 1362);
        assert_eq!(all[6..].iter().sum::<u64>(), 1552);
    }
}
