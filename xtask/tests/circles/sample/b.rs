use crate::c;

pub struct Beta;

impl Drop for Beta {
    fn drop(&mut self) {
        println!("{}", c::gamma());
    }
}
