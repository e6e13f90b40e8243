pub fn delta() {}

#[cfg(test)]
mod tests {
    use crate::a::ALPHA;

    #[test]
    fn alpha() {
        let _ = ALPHA;
        super::delta();
    }
}
