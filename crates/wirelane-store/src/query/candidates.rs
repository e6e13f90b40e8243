//! Which extents of a segment may hold what is asked for, as its index says.

use super::engine::Verdict;
use super::request::Damage;
use super::route::Opened;
use super::sift::Sieve;
