pub fn zeta() -> crate::e::Epsilon {
    crate::e::Epsilon
}
