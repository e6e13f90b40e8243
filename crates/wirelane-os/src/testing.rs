//! Helpers of this crate's privileged tests. The testkit depends on this crate, so only its
//! functions without types of this crate are usable here: its types are from another build.

pub(crate) use wirelane_testkit::netns::in_new_namespace;
pub(crate) use wirelane_testkit::privileged::require as privileged;
pub(crate) use wirelane_testkit::wait::eventually;
