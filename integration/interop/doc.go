// Package interop tests xetfs against other clients of the Xet formats: they download
// what xetfs pack wrote, and xetfs reads what they upload. Its tests have a small CAS
// server in them; the script run installs the clients. Whole repositories are read from
// xetfs serve by huggingface_hub, hf, @huggingface/hub and curl. It also tests codec/journal and
// xetfs inspect against a LevelDB, in both directions.
package interop
