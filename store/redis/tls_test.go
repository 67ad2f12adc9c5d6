// SPDX-FileCopyrightText: 2026 The Signpost Authors
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/signposthq/signpost"
	"github.com/signposthq/signpost/internal/redistest"
	"github.com/signposthq/signpost/store/redis"
)

// certificate makes a certificate that signs itself, for an address and until a time from now, and returns its files and who
// trusts it.
func certificate(t *testing.T, ip string, life time.Duration) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a server of a test"}, IPAddresses: []net.IP{net.ParseIP(ip)},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(life), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	trust = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trust.AddCert(parsed)
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", privateDER), trust
}

// A certificate that is trusted leads to a store, and one that is not to an error that says so: it will not be better tomorrow.
func TestTLS(t *testing.T) {
	cert, key, trust := certificate(t, "127.0.0.1", time.Hour)
	server, addr := redistest.StartTLS(t, cert, key)
	url := "rediss://" + addr
	for _, o := range []redis.Options{
		{URL: url, TLS: &tls.Config{RootCAs: trust}},
		{URL: url + "?skip_verify=true"},
	} {
		s := open(t, o)
		server.Forget()
		if d := take(t, s, request("tls", "5/min")); !d.Admitted {
			t.Errorf("%s: %+v", o.URL, d)
		}
		if server.Calls("evalsha") == 0 {
			t.Errorf("%s: the take was not made on the server", o.URL)
		}
	}

	refused := func(name string, o redis.Options, want string) {
		t.Helper()
		err := refusalOf(t, o)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "TLS") {
			t.Errorf("%s: error %v, want one that says %q", name, err, want)
		}
	}
	refused("a certificate that nobody signed", redis.Options{URL: url}, "unknown authority")
	cert, key, trust = certificate(t, "127.0.0.2", time.Hour)
	_, addr = redistest.StartTLS(t, cert, key)
	refused("a certificate of another address", redis.Options{URL: "rediss://" + addr, TLS: &tls.Config{RootCAs: trust}}, "127.0.0.2")
	cert, key, trust = certificate(t, "127.0.0.1", -time.Hour)
	_, addr = redistest.StartTLS(t, cert, key)
	refused("a certificate that has expired", redis.Options{URL: "rediss://" + addr, TLS: &tls.Config{RootCAs: trust}}, "expired")
}

func TestSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server := redistest.Start(t, "--unixsocket", socket)
	s, _ := guard(t, redis.Options{URL: "unix://" + socket})
	if d := take(t, s, request("socket", "5/min")); !d.Admitted || d.Degraded || server.Calls("evalsha") == 0 {
		t.Errorf("admitted=%v degraded=%v", d.Admitted, d.Degraded)
	}
	server.Kill()
	if d := take(t, s, request("socket", "5/min")); !d.Degraded {
		t.Error("not degraded without the server")
	}
	server.Restart()
	server.Eventually("the store rules again", func() bool { return !take(t, s, request("socket", "5/min")).Degraded })
}

// A server in protected mode turns away whoever does not come from loopback. Who asks it at another address of its own machine does
// not. A machine that could download what the tests need has one.
func TestProtectedMode(t *testing.T) {
	server := redistest.Start(t, "--protected-mode", "yes", "--bind", "127.0.0.1", ownAddress(t))
	if s, err := redis.Open(t.Context(), redis.Options{URL: server.URL()}); err != nil {
		t.Errorf("from loopback: %v", err)
	} else {
		s.Close()
	}
	_, port, _ := net.SplitHostPort(server.Addr)
	err := refusalOf(t, redis.Options{URL: "redis://" + net.JoinHostPort(ownAddress(t), port)})
	if !errors.Is(err, signpost.ErrStoreAuth) || !strings.Contains(err.Error(), "protected mode") || !strings.Contains(err.Error(), "give the server a password") {
		t.Errorf("error %v, want ErrStoreAuth and what to do", err)
	}
}

// ownAddress returns an address of this machine that is not loopback.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if own, ok := a.(*net.IPNet); ok && own.IP.IsGlobalUnicast() && own.IP.To4() != nil {
			return own.IP.String()
		}
	}
	t.Skip("this machine has no address of IPv4 but loopback, from which no server turns anybody away")
	return ""
}

// A server that loads its data answers nothing else for a while. A store can be opened meanwhile, and has the counts of before
// when that is done.
func TestLoading(t *testing.T) {
	server := redistest.Start(t, "--save", "3600 1", "--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
	o := redis.Options{URL: server.URL()}
	s, e := guard(t, o)
	const before = 7
	q := request("loading", "1000000/366d")
	for range before {
		take(t, s, q)
	}
	for i := range 3000 { // a millisecond each
		server.Do("SET", "filler:"+strings.Repeat("x", 100)+string(rune('a'+i%26))+big.NewInt(int64(i)).String(), "x")
	}
	server.Do("SAVE")
	server.Kill()
	server.Launch()
	server.Eventually("the server is loading", func() bool {
		d := take(t, s, q)
		ctx, cancel := context.WithTimeout(t.Context(), liveness)
		defer cancel()
		_, _, err := mustOpenNow(t, o).Peek(ctx, q)
		return d.Degraded && err != nil && strings.Contains(err.Error(), "LOADING")
	})
	server.Eventually("the store rules again", func() bool { return !take(t, s, q).Degraded })
	if got := used(t, s, q); got < before+2 {
		t.Errorf("%d are used, want the %d of before and all since", got, before)
	}
	if len(e.degraded) == 0 {
		t.Error("nobody was told")
	}
}

// mustOpenNow opens a store on a server that may not be able to answer yet, which is no error.
func mustOpenNow(t *testing.T, o redis.Options) *redis.Store {
	t.Helper()
	s, err := redis.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open while the server loads: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
