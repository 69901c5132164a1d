//! What the tests and the development programs share. It knows nothing of the product.

pub mod postgres;
