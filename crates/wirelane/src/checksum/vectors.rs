//! The vectors for computing sums.

use std::sync::atomic::{AtomicU8, Ordering};

/// Vector extensions of a CPU, narrowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vectors {
    /// The vectors of every CPU of the architecture.
    Portable = 1,
    /// AVX2: 32 bytes.
    Avx2 = 2,
    /// AVX-512 with VNNI: 64 bytes.
    Avx512 = 3,
}

/// A [`Vectors`] as number; 0 before the CPU was queried.
static USED: AtomicU8 = AtomicU8::new(0);

impl Vectors {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The vectors in use: the widest of the CPU, unless there is a limit. Costs one load after the
    /// first call.
    #[inline]
    pub fn used() -> Self {
        match USED.load(Ordering::Relaxed) {
            1 => Self::Portable,
            2 => Self::Avx2,
            3 => Self::Avx512,
            _ => Self::limit(Self::Avx512),
        }
    }

    /// Limits this process to `most`, as on a CPU without wider vectors: for comparisons. Returns
    /// the vectors in use from now on.
    #[cold]
    pub fn limit(most: Self) -> Self {
        let used = Self::of_cpu().min(most);
        USED.store(used as u8, Ordering::Relaxed);
        used
    }

    /// The widest vectors of the CPU.
    #[cold]
    pub fn of_cpu() -> Self {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx512f") && has!("avx512bw") && has!("avx512vnni") {
                return Self::Avx512;
            }
            if has!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Portable
    }
}
