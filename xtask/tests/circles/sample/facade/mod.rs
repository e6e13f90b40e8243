pub mod f;
