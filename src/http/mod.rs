//! The door to the outside: request-level pieces and answers.
