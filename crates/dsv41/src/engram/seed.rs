//! Numpy's default generator, as far as Engram multipliers need it: `SeedSequence` and `PCG64`.

const POOL: usize = 4;

/// `numpy.random.SeedSequence(seed).generate_state(8, uint32)` for a seed of one 32-bit word.
fn seed_words(seed: u32) -> [u32; 8] {
    let mut constant = 0x43b0_d7e5u32;
    let mut hash = |value: u32| {
        let value = value ^ constant;
        constant = constant.wrapping_mul(0x931e_8875);
        let value = value.wrapping_mul(constant);
        value ^ (value >> 16)
    };
    let mut pool = [0u32; POOL];
    for (i, word) in pool.iter_mut().enumerate() {
        *word = hash(if i == 0 { seed } else { 0 });
    }
    for from in 0..POOL {
        for to in 0..POOL {
            if from != to {
                let mixed = pool[to]
                    .wrapping_mul(0xca01_f9dd)
                    .wrapping_sub(hash(pool[from]).wrapping_mul(0x4973_f715));
                pool[to] = mixed ^ (mixed >> 16);
            }
        }
    }
    let mut constant = 0x8b51_f9ddu32;
    std::array::from_fn(|i| {
        let value = pool[i % POOL] ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        let value = value.wrapping_mul(constant);
        value ^ (value >> 16)
    })
}

/// `numpy.random.default_rng(seed)`: PCG64, the XSL-RR 128/64 generator.
pub(super) struct Pcg64 {
    state: u128,
    increment: u128,
}

impl Pcg64 {
    pub(super) fn new(seed: u32) -> Self {
        let w = seed_words(seed).map(u128::from);
        let wide = |i: usize| (w[i + 1] << 96) | (w[i] << 64) | (w[i + 3] << 32) | w[i + 2];
        let mut rng = Self { state: 0, increment: (wide(4) << 1) | 1 };
        rng.step();
        rng.state = rng.state.wrapping_add(wide(0));
        rng.step();
        rng
    }

    fn step(&mut self) {
        const MULTIPLIER: u128 = (2549297995355413924 << 64) | 4865540595714422341;
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    fn next_u64(&mut self) -> u64 {
        self.step();
        let (high, low) = ((self.state >> 64) as u64, self.state as u64);
        (high ^ low).rotate_right((self.state >> 122) as u32)
    }

    /// `integers(0, bound)` of 64-bit values, for `bound` above 2^32 (below, numpy draws 32-bit words).
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // Draws under this low part would make some results likelier than others.
        let biased = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= biased {
                return (product >> 64) as u64;
            }
        }
    }
}
