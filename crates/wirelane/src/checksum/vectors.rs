//! Which vectors sums are made with.

use std::sync::atomic::{AtomicU8, Ordering};

/// Vectors of a CPU, from the narrowest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vectors {
    /// What every CPU of the architecture has.
    Portable = 1,
    /// AVX2: 32 bytes.
    Avx2 = 2,
    /// AVX-512 with VNNI: 64 bytes.
    Avx512 = 3,
}

/// A [`Vectors`] as number; 0 if the CPU was not asked yet.
static USED: AtomicU8 = AtomicU8::new(0);

impl Vectors {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Their name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// Those that sums are made with: the widest of the CPU, unless there is a limit. One load,
    /// once the CPU was asked.
    #[inline]
    pub fn used() -> Self {
        match USED.load(Ordering::Relaxed) {
            1 => Self::Portable,
            2 => Self::Avx2,
            3 => Self::Avx512,
            _ => Self::limit(Self::Avx512),
        }
    }

    /// Lets this process make sums with these at most, as on a CPU that has no wider ones: for
    /// comparisons. Returns what is used from now on.
    #[cold]
    pub fn limit(most: Self) -> Self {
        let used = Self::of_cpu().min(most);
        USED.store(used as u8, Ordering::Relaxed);
        used
    }

    /// The widest that the CPU has.
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
