//! Access methods: plain algorithms over page transactions.
