package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/document"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/signers"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/signature"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// newSign returns the command that signs an existing version.
func newSign() *cobra.Command {
	var o signOptions
	cmd := &cobra.Command{
		Use:   "sign STORE SYMBOL[@AS_OF]",
		Short: "Sign an existing version of a symbol",
		Long: `Signs a version that was published before, with an SSH key or with the private part of a public key
that ssh-agent holds. There is no new version. The signature takes the place of an earlier one.

With --print the command only prints the text that is signed. With --signature it adds what
ssh-keygen -Y sign has made of that text. A deleted version cannot be signed.`,
		Annotations: see("signatures", "versions", "json"),
		Example: `  xetfs catalog sign --sign-key ~/.ssh/id_ed25519 ./store org/model@12
  xetfs catalog sign --print ./store org/model@12 >text
  ssh-keygen -Y sign -n xetfs -f ~/.ssh/id_ed25519 text
  xetfs catalog sign --signature text.sig ./store org/model@12`,
		Args:              arguments(2, 2),
		ValidArgsFunction: completeSymbols(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := parseTarget(args[1])
			if err != nil {
				return err
			}
			switch {
			case o.print && o.asJSON:
				return usageError{errors.New("--print excludes --json")}
			case o.print:
				return printText(cmd, args[0], t)
			}
			return o.sign(cmd, args[0], t)
		},
	}
	singleWriterFlag(cmd)
	signKeyFlag(cmd)
	cmd.Flags().StringVar(&o.signature, "signature", "", "add the signature in this `FILE` of ssh-keygen")
	cmd.Flags().BoolVar(&o.print, "print", false, "only print the text that is signed")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON instead of text")
	return cmd
}

// signOptions are the flags of catalog sign.
type signOptions struct {
	signature     string // file; "": sign with a key
	print, asJSON bool
}

// printText prints the text that is signed for a version.
func printText(cmd *cobra.Command, store string, t target) error {
	return withCatalog(cmd, store, func(ctx context.Context, c *stack.CatalogReader) error {
		row, err := c.Resolve(ctx, t.symbol, t.at)
		if err != nil {
			return err
		}
		if row.Time.IsZero() {
			return errNoNumber
		}
		_, err = cmd.OutOrStdout().Write(signature.Text(c.Settings().ID, t.symbol, row))
		return err
	})
}

var errNoNumber = usageError{errors.New("ver:HASH names a tree, and a signature is for a version: name its number")}

// sign signs a version.
func (o *signOptions) sign(cmd *cobra.Command, store string, t target) error {
	if t.at.Form == names.ByIdentity {
		return errNoNumber
	}
	sign, done, err := openSignKey(cmd)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case o.signature != "":
		sign, err = foreignSignature(o.signature)
	case sign == nil:
		err = usageError{errors.New("--sign-key names the key, and --signature a signature of ssh-keygen")}
	}
	if err != nil {
		return err
	}
	return withPublisher(cmd, store, func(ctx context.Context, w *stack.CatalogWriter) error {
		row, err := w.Catalog().Resolve(ctx, t.symbol, t.at)
		if err != nil {
			return err
		}
		if row, err = w.Sign(ctx, t.symbol, row.Number, sign); err != nil {
			return err
		}
		key, err := signature.Fingerprint(row.Sig)
		if err != nil {
			return err
		}
		return document.WriteSigned(cmd.OutOrStdout(), t.symbol, row, key, o.asJSON)
	})
}

// foreignSignature returns a function that signs with the signature in a file.
func foreignSignature(path string) (writer.SignFunc, error) {
	text, err := signers.Read(path, signers.MaxSignature)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, id, symbol string, row names.Row) (string, error) {
		sig, err := signature.Unarmor(text, id, symbol, row)
		if err != nil {
			err = fmt.Errorf("version %d: %s: %w", row.Number, path, err)
		}
		return sig, err
	}, nil
}
