# `make demo` shows what pleg does on a real containerd; `make test` proves it.
# Both set up what they need. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## /  make \1\t/' | expand -t 18

.PHONY: demo
demo: ## Run pods on a real containerd and show what pleg reports
	@$(CARGO) build --quiet -p pleg-cli -p pleg-guard -p testbed-driver
	@testbed/demo

.PHONY: test
test: ## Everything that proves it: format, lints, unit, scenario and end-to-end tests
	@testbed/make-test

.PHONY: check
check: ## Format, words, lints and links in the documentation of the code
	$(CARGO) fmt --all --check
	testbed/words
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	$(CARGO) clippy -p pleg-cli --no-default-features -- -D warnings # the observer, which the image contains
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --no-deps --workspace --all-features --lib --bins --examples # as clippy has checked them

.PHONY: unit
unit: ## Unit and scenario tests, in virtual time and on sockets: no root, no runtime
	testbed/unit $(CARGO)

CONTAINERD = --features e2e/containerd --test containerd

.PHONY: e2e
e2e: ## End-to-end tests on real containerd: needs root
	$(CARGO) test --quiet --no-run --test cli --test program $(CONTAINERD) # the commands are built for their own tests
	$(CARGO) test --quiet $(CONTAINERD) -- --test-threads 2 --skip burst:: --skip alone::
	$(CARGO) test --quiet $(CONTAINERD) -- --test-threads 1 burst:: alone:: # they bear no other test beside them

.PHONY: deny
deny: ## Bans, licences and sources of dependencies; needs cargo-deny
	$(CARGO) deny --log-level error check bans licenses sources

.PHONY: bench
bench: ## What it costs, as a table; needs root for the part on containerd
	$(CARGO) build --release -p pleg-cli
	$(CARGO) run --release -p bench
	$(CARGO) run --release -p bench -- static-pods
	bench/analyze

.PHONY: dist
dist: ## A release for amd64 and arm64, in target/dist: binaries, .deb, images, SBOM, provenance, checksums
	@packaging/dist

.PHONY: clean
clean: ## Remove all instances of the testbed, and everything that was built
	-testbed/testbed down --all
	$(CARGO) clean
