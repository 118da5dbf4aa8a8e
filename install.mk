# make install [DESTDIR= PREFIX= PYTHON=], make uninstall: included by the Makefile.
#
# What is installed is what is in .venv: nothing is fetched or compiled again. With DESTDIR everything goes
# below that directory, names no path of it, and the running system is left alone. `make uninstall` removes
# these files and leaves configuration, state and users.
PREFIX ?= /usr/local
DESTDIR ?=
PYTHON ?=
SYSCONFDIR ?= /etc

LIBDIR = $(PREFIX)/lib/lazyd
# systemd looks below /usr and /usr/local; for any other prefix its own directory in /etc serves.
SYSTEMD_SEES = $(filter /usr /usr/local,$(PREFIX))
UNITDIR = $(if $(SYSTEMD_SEES),$(PREFIX)/lib/systemd/system,$(SYSCONFDIR)/systemd/system)
USERUNITDIR = $(if $(SYSTEMD_SEES),$(PREFIX)/lib/systemd/user,$(SYSCONFDIR)/systemd/user)
SYSUSERSDIR = $(if $(SYSTEMD_SEES),$(PREFIX)/lib/sysusers.d,$(SYSCONFDIR)/sysusers.d)
TMPFILESDIR = $(if $(SYSTEMD_SEES),$(PREFIX)/lib/tmpfiles.d,$(SYSCONFDIR)/tmpfiles.d)

UNITS = lazyd.socket lazyd.service lazyd-host.service lazyd-fetch.socket lazyd-fetch.service lazyd-nvidia.service
USERUNITS = lazyd.socket lazyd.service lazyd-host.service lazyd-fetch.socket lazyd-fetch.service
COMPLETIONS = bash:$(PREFIX)/share/bash-completion/completions/lazyctl \
	zsh:$(PREFIX)/share/zsh/site-functions/_lazyctl \
	fish:$(PREFIX)/share/fish/vendor_completions.d/lazyctl.fish
INSTALLED = $(PREFIX)/bin/lazyd $(PREFIX)/bin/lazyctl $(PREFIX)/share/doc/lazyd/systemd.md \
	$(addprefix $(UNITDIR)/,$(UNITS)) $(addprefix $(USERUNITDIR)/,$(USERUNITS)) \
	$(SYSUSERSDIR)/lazyd.conf $(TMPFILESDIR)/lazyd.conf \
	$(foreach completion,$(COMPLETIONS),$(lastword $(subst :, ,$(completion))))
# Removed only if they are empty then, for others use them too; deeper ones first.
DIRECTORIES = $(UNITDIR) $(USERUNITDIR) $(SYSUSERSDIR) $(TMPFILESDIR) $(PREFIX)/lib/systemd \
	$(PREFIX)/share/bash-completion/completions $(PREFIX)/share/bash-completion \
	$(PREFIX)/share/zsh/site-functions $(PREFIX)/share/zsh \
	$(PREFIX)/share/fish/vendor_completions.d $(PREFIX)/share/fish \
	$(PREFIX)/share/doc/lazyd

# Units and wrappers are written for /usr/local.
AT_PREFIX = sed -e 's|/usr/local|$(PREFIX)|g'

.PHONY: install uninstall install-program install-units install-configuration install-completions

install: install-program install-units install-configuration install-completions  ## into PREFIX (/usr/local), or staged below DESTDIR
ifeq ($(DESTDIR),)
	@if command -v systemd-sysusers >/dev/null; then systemd-sysusers $(SYSUSERSDIR)/lazyd.conf; fi
	@if [ -d /run/systemd/system ]; then \
		systemd-tmpfiles --create $(TMPFILESDIR)/lazyd.conf && systemctl daemon-reload; fi
	@echo "Installed. To start it now and at boot: systemctl enable --now lazyd"
	@echo "To let NAME use it: usermod --append --groups lazyd NAME"
endif

install-program:
	@[ -x .venv/bin/lazyd ] || $(MAKE) setup
	@echo "== $(DESTDIR)$(LIBDIR)"
	@.venv/bin/python scripts/install/environment.py --python "$(PYTHON)" --root "$(DESTDIR)" $(LIBDIR)/venv
	@chmod -R u=rwX,go=rX "$(DESTDIR)$(LIBDIR)"
	@install -m 755 systemd/stop-helper "$(DESTDIR)$(LIBDIR)/stop-helper"
	@install -d "$(DESTDIR)$(PREFIX)/bin"
	@for name in lazyd lazyctl; do \
		$(AT_PREFIX) scripts/install/$$name > "$(DESTDIR)$(PREFIX)/bin/$$name.new"; \
		chmod 755 "$(DESTDIR)$(PREFIX)/bin/$$name.new"; \
		mv "$(DESTDIR)$(PREFIX)/bin/$$name.new" "$(DESTDIR)$(PREFIX)/bin/$$name"; done

install-units:
	@echo "== $(DESTDIR)$(UNITDIR)"
	@install -d "$(DESTDIR)$(UNITDIR)" "$(DESTDIR)$(USERUNITDIR)" "$(DESTDIR)$(SYSUSERSDIR)" "$(DESTDIR)$(TMPFILESDIR)" \
		"$(DESTDIR)$(PREFIX)/share/doc/lazyd"
	@for unit in $(UNITS); do \
		$(AT_PREFIX) systemd/$$unit > "$(DESTDIR)$(UNITDIR)/$$unit"; chmod 644 "$(DESTDIR)$(UNITDIR)/$$unit"; done
	@for unit in $(USERUNITS); do \
		$(AT_PREFIX) systemd/user/$$unit > "$(DESTDIR)$(USERUNITDIR)/$$unit"; chmod 644 "$(DESTDIR)$(USERUNITDIR)/$$unit"; done
	@install -m 644 systemd/sysusers.d/lazyd.conf "$(DESTDIR)$(SYSUSERSDIR)/lazyd.conf"
	@install -m 644 systemd/tmpfiles.d/lazyd.conf "$(DESTDIR)$(TMPFILESDIR)/lazyd.conf"
	@install -m 644 docs/systemd.md "$(DESTDIR)$(PREFIX)/share/doc/lazyd/systemd.md"

install-configuration:
	@install -d "$(DESTDIR)$(SYSCONFDIR)/lazyd" "$(DESTDIR)$(SYSCONFDIR)/lazyd/lazyd.d"
	@[ -e "$(DESTDIR)$(SYSCONFDIR)/lazyd/lazyd.toml" ] || \
		install -m 644 etc/lazyd.toml "$(DESTDIR)$(SYSCONFDIR)/lazyd/lazyd.toml"

install-completions:
	@for completion in $(COMPLETIONS); do \
		shell=$${completion%%:*}; file="$(DESTDIR)$${completion#*:}"; \
		install -d "$$(dirname "$$file")"; \
		if .venv/bin/lazyctl completion $$shell > "$$file.new"; then \
			chmod 644 "$$file.new"; mv "$$file.new" "$$file"; \
		else rm "$$file.new"; echo "no completion for $$shell"; fi; done

uninstall:  ## removes what install put there; configuration, state and users stay
ifeq ($(DESTDIR),)
	@if [ -d /run/systemd/system ]; then \
		systemctl disable --quiet --now lazyd.service lazyd.socket lazyd-host.service lazyd-fetch.socket lazyd-fetch.service lazyd-nvidia.service 2>/dev/null || true; fi
endif
	@rm -f $(addsuffix ",$(addprefix "$(DESTDIR),$(INSTALLED)))
	@rm -rf "$(DESTDIR)$(LIBDIR)"
	@for directory in $(addsuffix ",$(addprefix "$(DESTDIR),$(DIRECTORIES))); do \
		if [ -d "$$directory" ]; then rmdir --ignore-fail-on-non-empty "$$directory"; fi; done
ifeq ($(DESTDIR),)
	@if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
	@echo "Removed. Left: $(SYSCONFDIR)/lazyd, /var/lib/lazyd, /var/cache/lazyd-worker, the users lazyd, lazyd-fetch and lazyd-worker"
endif
