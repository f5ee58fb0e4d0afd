#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <fstream>
#include <memory>
#include <string>

namespace nerf {

// A P-256 certificate and its key.
class TestCertificate {
 public:
  // A CA that has signed itself, valid for an hour.
  explicit TestCertificate(const std::string& name) : TestCertificate(name, nullptr, 3600) {}
  // For the host `name`, signed by `issuer`; expires in `seconds`.
  TestCertificate(const std::string& name, const TestCertificate* issuer, long seconds = 86400)
      : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
    static int serial = 0;
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_.get()), ++serial);
    X509_set_version(certificate_.get(), 2);
    X509_gmtime_adj(X509_getm_notBefore(certificate_.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate_.get()), seconds);
    X509_set_pubkey(certificate_.get(), key_.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate_.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    const X509* of_issuer = issuer == nullptr ? certificate_.get() : issuer->certificate_.get();
    X509_set_issuer_name(certificate_.get(), X509_get_subject_name(of_issuer));
    if (issuer == nullptr) {
      Extend(NID_basic_constraints, "critical,CA:TRUE");
    } else {
      Extend(NID_subject_alt_name, "DNS:" + name + ",IP:127.0.0.1");
    }
    X509_sign(certificate_.get(), issuer == nullptr ? key_.get() : issuer->key_.get(),
              EVP_sha256());
  }

  void Write(const std::string& certificate_path, const std::string& key_path) const {
    BIO* const out = BIO_new_file(certificate_path.c_str(), "w");
    PEM_write_bio_X509(out, certificate_.get());
    BIO_free(out);
    if (key_path.empty()) return;
    BIO* const key = BIO_new_file(key_path.c_str(), "w");
    PEM_write_bio_PrivateKey(key, key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
    BIO_free(key);
  }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
  };

  void Extend(int nid, const std::string& value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
    X509_add_ext(certificate_.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }

  std::unique_ptr<EVP_PKEY, Free> key_;
  std::unique_ptr<X509, Free> certificate_;
};

}  // namespace nerf
